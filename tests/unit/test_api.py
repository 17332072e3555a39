"""`gemmgen.matmul`, over the reference library on the CPU in a GPU's place, and what the package shows of itself."""

from __future__ import annotations

import ast
import dis
import inspect
import subprocess
import sys
import threading
import warnings
from collections import Counter
from contextlib import nullcontext
from fractions import Fraction
from functools import partial
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import gemmgen
import numpy_cupy
import reference
from gemmgen import api, road
from gemmgen.api import notes, reproducible, shapes, torch_state
from gemmgen.api.wide import wide_product
from gemmgen.library import kept
from gemmgen.errors import GemmgenError, Notice, SpecError, UnknownName
from gemmgen.run import Result, check_extents
from gemmgen.run.batch import BatchResult
from gemmgen.run.here import Here
from gemmgen.solve.frontier import Frontier, Point

H200 = Here("NVIDIA H200", "sm_90", 132, 13000)


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    """No product, note or library is known yet, and no GPU is here."""
    for table in ("_products", "_short"):
        monkeypatch.setattr(api, table, {})
    for name, value in (("_own_types", set()), ("_is_traced", bool), ("_tensor", None), ("_parameter", None), ("_float32", None), ("_light", -1), ("_on_gpu", True),
                        ("_is_reduced", bool), ("_autocasts", bool), ("_multiply", None)):
        monkeypatch.setattr(api, name, value)
    monkeypatch.setattr(notes, "_noted", set())
    tables = api._front, api._package, api._carried
    for cached in tables:
        cached.cache_clear()
    monkeypatch.setattr("gemmgen.run.here.cuda_gpus", lambda: ())
    yield
    for cached in tables:
        cached.cache_clear()


def made(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(got, want):
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-5)


def noticed(call):
    """(what it gives, the notices)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = call()
    return given, [str(one.message) for one in caught if issubclass(one.category, Notice)]


# ---- NumPy


@pytest.mark.parametrize(("a", "b"), [((5, 9), (9, 7)), ((3, 5, 9), (9, 7)), ((2, 1, 5, 9), (3, 9, 7)), ((9,), (9, 7)), ((5, 9), (9,)), ((9,), (9,))])
def test_numpys_arrays_are_multiplied_as_numpy_does(a, b):
    for dtype in (np.float32, np.float64, np.int32):
        x, y = made(*a, dtype=dtype), made(*b, seed=1, dtype=dtype)
        got, told = noticed(lambda: gemmgen.matmul(x, y))
        assert got.dtype == dtype and got.shape == (x @ y).shape
        close(got, x @ y)
    assert gemmgen.matmul(np.asfortranarray(made(5, 9))[::2], made(9, 7)).shape == (3, 7)


def test_lists_and_float64_are_multiplied_in_fp64_which_is_told_once():
    got, told = noticed(lambda: gemmgen.matmul([[1.0, 1e-12]], [[1.0], [1.0]]))
    assert got.dtype == np.float64 and got[0, 0] == 1 + 1e-12
    assert len(told) == 1 and "float64 arrays are multiplied by numpy in FP64" in told[0] and "kernels of FP64 take those of CuPy and torch" in told[0]
    assert noticed(lambda: gemmgen.matmul([[1.0]], np.ones((1, 1))))[1] == []


def test_a_machine_without_a_gpu_says_so_once():
    x = made(4, 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            gemmgen.matmul(x, x)
    assert [(one.filename, one.category) for one in caught] == [(__file__, Notice)] and "numpy multiplies them on the CPU" in str(caught[0].message)


def test_fp64_of_float32_arrays():
    x = np.float32([[1, 2**-20]])
    got = gemmgen.matmul(x, x.T, accuracy="fp64")
    assert got.dtype == np.float64 and got[0, 0] == 1 + 2.0**-40


class Sparse:
    def toarray(self): ...


class Elsewhere:
    def __array__(self, *given, **options):
        raise TypeError("it lies on cuda:0")


def unaligned(x):
    return np.frombuffer(b"0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("made_of", [
    lambda x: x[::-1], lambda x: x[:, ::-1].T, lambda x: x.astype(">f4"), lambda x: np.broadcast_to(x[:1], x.shape), unaligned, lambda x: x[:, :0],
    lambda x: x[:0], lambda x: x.view(np.matrix), lambda x: np.ma.masked_less(x, -1e9), lambda x: x.astype(np.float16), lambda x: x.astype(np.longdouble),
    lambda x: x > 0, lambda x: x + 1j * x, lambda x: (100 * x).astype(np.int8),
], ids=["reversed", "turned", "big-endian", "repeated", "unaligned", "empty k", "empty m", "matrix", "masked nothing", "half", "long double", "truth", "complex",
        "int8"])
def test_odd_arrays_give_what_numpy_gives(made_of):
    x = made_of(made(6, 6))
    x.flags.writeable = False
    y = made_of(made(6, 6, seed=1)) if x.shape == (6, 6) else made_of(made(6, 6)).T
    want = x @ y
    got = gemmgen.matmul(x, y)
    assert type(got) is type(want) and got.dtype == want.dtype
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    in_fp64 = gemmgen.matmul(x, y, accuracy="fp64")
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    assert type(in_fp64) is type(want) and in_fp64.dtype == wide
    np.testing.assert_array_equal(np.asarray(in_fp64), np.asarray(x).astype(wide) @ np.asarray(y).astype(wide))


def test_each_type_that_no_kernel_takes_is_told_once():
    x = made(4, 4)
    _, told = noticed(lambda: [gemmgen.matmul(x.astype(kind), x.astype(kind)) for kind in (np.float16, np.float16, np.int8, np.complex64)])
    said = [one.split(": ", 1)[1].replace(";", ",").partition(",")[0] for one in told]
    assert said == [f"{kind} arrays are multiplied by numpy in {kind}" for kind in ("float16", "int8", "complex64")]
    assert told[-1].endswith("kernels of complex64 take those of CuPy and torch in a GPU's memory")


def test_an_array_that_a_subclass_multiplies_stays_its_own(monkeypatch):
    """As one with units is, whose products have others; a GPU would lose them."""
    class Metres(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *given, **options):
            return "square metres"

    monkeypatch.setattr("gemmgen.run.here.cuda_gpus", lambda: (H200,))
    monkeypatch.setattr(api, "WORTH_A_COPY", 1)
    monkeypatch.setattr(api, "_carried", lambda: None.fail)
    x = made(4, 4)
    assert gemmgen.matmul(x.view(Metres), x) == gemmgen.matmul(x, x.view(Metres)) == "square metres"


@pytest.mark.parametrize(("call", "error", "told"), [
    (lambda: gemmgen.matmul(made(5, 9), made(5, 9)), SpecError, ("matmul: a, b", "b of 9 rows", "swapaxes")),
    (lambda: gemmgen.matmul(made(5, 9), made(8, 4)), SpecError, ("matmul: a, b", "b of 9 rows", "a[..., m, k]")),
    (lambda: gemmgen.matmul(made(2, 5, 9), made(3, 9, 5)), SpecError, ("matmul: a, b", "equal or 1", "extent 1")),
    (lambda: gemmgen.matmul(made(5, 9), 3.0), SpecError, ("matmul: a, b", "one dimension or more", "a * b")),
    (lambda: gemmgen.matmul([[1], [2, 3]], made(2, 2)), SpecError, ("matmul: a", "rows of one length", "a's shorter rows")),
    (lambda: gemmgen.matmul(made(2, 2), np.array([["x"]])), SpecError, ("matmul: b", "numbers", "numpy.asarray(b, 'float32')")),
    (lambda: gemmgen.matmul([[Fraction(1, 3)]], made(1, 1)), SpecError, ("matmul: a", "numbers", "numpy.asarray(a, 'float32')")),
    (lambda: gemmgen.matmul(np.zeros((2, 2), [("x", "f4")]), made(2, 2)), SpecError, ("matmul: a", "numbers", "a['x']")),
    (lambda: gemmgen.matmul(made(2, 2), np.zeros((2, 2), "V4")), SpecError, ("matmul: b", "numbers", "b.view('float32')")),
    (lambda: gemmgen.matmul(np.ma.masked_less(made(2, 2), 9), made(2, 2)), SpecError, ("matmul: a", "numbers everywhere", "a.filled(0)")),
    (lambda: gemmgen.matmul(np.ma.masked_less(made(2, 2), 9), made(2, 2), "fp64"), SpecError, ("matmul: a", "numbers everywhere", "a.filled(0)")),
    (lambda: gemmgen.matmul(made(2, 2), "x"), SpecError, ("matmul: b", "an array of NumPy", "[[1.0, 2.0]]")),
    (lambda: gemmgen.matmul(None, made(2, 2)), SpecError, ("matmul: a", "an array of NumPy", "[[1.0, 2.0]]")),
    (lambda: gemmgen.matmul(range(2), made(2, 2)), SpecError, ("matmul: a", "an array of NumPy", "list(a)")),
    (lambda: gemmgen.matmul(memoryview(made(2, 2)), made(2, 2)), SpecError, ("matmul: a", "an array of NumPy", "numpy.asarray(a)")),
    (lambda: gemmgen.matmul(made(2, 2).tobytes(), made(2, 2)), SpecError, ("matmul: a", "an array of NumPy", "numpy.frombuffer(a, 'float32')")),
    (lambda: gemmgen.matmul(made(2, 2), Elsewhere()), SpecError, ("matmul: b", "rows of one length", "b's shorter rows")),
    (lambda: gemmgen.matmul(made(2, 2), Sparse()), SpecError, ("matmul: b", "an array of NumPy", "b.toarray()")),
    (lambda: gemmgen.matmul(made(2, 2), made(2, 2), accuracy="fp23"), UnknownName, ("matmul: accuracy", "fp32", "fp32")),
    (lambda: gemmgen.matmul(made(2, 2), made(2, 2), accuracy=["fp32"]), UnknownName, ("matmul: accuracy", "fp32", "fp32")),
])
def test_refusals_say_where_what_is_needed_and_what_to_try(call, error, told):
    for _ in range(2):  # and are not forgotten where the types are known
        with pytest.raises(error) as refused:
            call()
        assert refused.value.where == told[0] and told[1] in refused.value.needs and told[2] in refused.value.remedy and refused.value.got


def test_numpys_arrays_go_to_a_gpu_where_that_is_faster(monkeypatch):
    monkeypatch.setattr("gemmgen.run.here.cuda_gpus", lambda: (H200,))
    asked, slow = [], [0.0]
    monkeypatch.setattr(api, "_carried", lambda: lambda a, b: asked.append(a.shape) or api.time.sleep(slow[0]) or a @ b)
    x = made(8, 8)
    gemmgen.matmul(x, x)
    assert asked == [], "a copy takes longer"
    monkeypatch.setattr(api, "WORTH_A_COPY", 8**3)
    monkeypatch.setattr(api, "_products", {})
    own = lambda a, b: api.time.sleep(0.01) or a @ b  # noqa: E731
    front = api._Numpy(SimpleNamespace(**{name: getattr(np, name) for name in ("float32", "ndarray")}, matmul=own, __name__="numpy"))
    close(front.product(x, x), x @ x)
    assert len(asked) == 3 and front._known[x.shape, x.shape] is not own, "once to load kernels, once timed, and this product"
    slow[0] = 0.1
    front._known.clear()
    close(front.product(x, x), x @ x)
    assert front._known[x.shape, x.shape] is own


# ---- which way is taken


def choice(seconds, sgemm, fallback=False):
    return SimpleNamespace(seconds=seconds, sgemm_seconds=sgemm, is_fallback=fallback)


@pytest.mark.parametrize(("choices", "timed", "own"), [
    ([choice(1e-3, 3e-3)], None, True), ([choice(3e-3, 1e-3)], None, False), ([choice(1e-3, 1.5e-3)], False, False), ([choice(1.5e-3, 1e-3)], True, True),
    ([choice(1e-6, 40e-6)], False, False), ([choice(1e-3, 9e-3, fallback=True)], None, False), ([], None, False),
    ([choice(1e-3, 3e-3), choice(4e-3, 3e-3)], True, True), ([choice(1e-3, 9e-3), choice(1e-3, 9e-3, fallback=True)], None, False),
])
def test_predictions_decide_where_they_are_clear_and_times_elsewhere(monkeypatch, choices, timed, own):
    asked = []
    monkeypatch.setattr(api, "_first_is_faster", lambda *given: asked.append(given) or timed)
    found = api._chosen(choices, "own", "vendor", None, None, lambda: None)
    assert found == ("own" if own else "vendor") and bool(asked) == (timed is not None)
    captured = api._chosen(choices, "own", "vendor", None, None, None)
    assert len(asked) == (timed is not None), "nothing is timed while a graph is captured"
    predicted = sum(one.seconds - one.sgemm_seconds for one in choices)
    assert captured == ("own" if predicted < 0 and not choices[-1].is_fallback else "vendor")


def test_both_ways_are_timed_in_turns_after_a_first_call(monkeypatch):
    now, calls = [0.0], []

    def way(name, seconds):
        def product(a, b):
            calls.append(name)
            now[0] += 5.0 if calls.count(name) == 1 else seconds

        return product

    monkeypatch.setattr(api.time, "perf_counter", lambda: now[0])
    assert api._first_is_faster(way("own", 1e-3), way("vendor", 2e-3), None, None, lambda: None, 1e-3)
    assert calls[:6] == ["own", "vendor", "own", "own", "vendor", "vendor"] and calls.count("own") == 1 + 2 * api.ROUNDS
    calls.clear()
    assert not api._first_is_faster(way("own", 2e-3), way("vendor", 2e-3), None, None, lambda: None, 1.0), "of equal ones the vendor's"


def test_what_is_no_library_is_told_once(monkeypatch):
    def none(gpu, progress, element):
        progress("candidates"), progress("compile")
        raise GemmgenError("cc", "is not installed", remedy="install gcc")

    monkeypatch.setattr("gemmgen.library.kept.package", none)
    found, told = noticed(lambda: api._package(H200))
    assert found is None and len(told) == 2 and "builds its library of f32 kernels for NVIDIA H200" in told[0] and "install gcc" in told[1]
    assert noticed(lambda: api._package(H200)) == (None, [])


def test_tables_do_not_grow_without_end(monkeypatch):
    monkeypatch.setattr(api, "MOST_KEPT", 3)
    table = {}
    for key in range(7):
        assert api._kept(table, key, key) == key and len(table) <= 3


@pytest.mark.parametrize(("a", "b", "extents"), [
    ((5, 9), (9, 7), (5, 7, 9, 1)), ((3, 5, 9), (9, 7), (5, 7, 9, 3)), ((2, 1, 5, 9), (4, 9, 7), (5, 7, 9, 8)), ((9,), (2, 9, 7), (1, 7, 9, 2)),
    ((5, 9), (9,), (5, 1, 9, 1)),
])
def test_extents_of_a_product(a, b, extents):
    assert shapes.extents(a, b) == extents


# ---- CuPy


def test_cupys_arrays_by_the_library_or_by_cupy(monkeypatch):
    cupy, taken = numpy_cupy.install(monkeypatch), []

    class Array(numpy_cupy.Array):
        class device:  # noqa: N801
            id = 0

            def __enter__(self): ...
            def __exit__(self, *given): ...

        device = device()
        data = SimpleNamespace(device_id=0)

    monkeypatch.setattr(api, "LIGHT", -1)
    cupy.__name__, cupy.ndarray, cupy.matmul, cupy.result_type = "cupy", Array, lambda a, b: taken.append("cupy") or a @ b, np.result_type
    cupy.cuda.get_current_stream = lambda: SimpleNamespace(synchronize=lambda: None)
    package = SimpleNamespace(select=lambda m, n, k, batch: taken.append((m, n, k, batch)) or choice(1e-3, 1e-2),
                              matmul=lambda a, b: taken.append("own") or a @ b, Error=KeyError)
    monkeypatch.setattr(api, "_package", lambda gpu: package if gpu is H200 else None)
    monkeypatch.setattr("gemmgen.run.here.cuda_gpus", lambda: (H200,))
    front = api._Cupy(cupy)
    a, b = (np.asarray(x).view(Array) for x in (made(3, 5, 9), made(9, 7)))
    for _ in range(2):
        close(front.product(a, b), np.asarray(a) @ np.asarray(b))
    assert taken == [(5, 7, 9, 3), "own", "own"]
    assert len(noticed(lambda: front.product(a.astype(np.float64).view(Array), b))[1]) == 1
    assert taken[-1] == "cupy"
    monkeypatch.setattr(api, "wide_product", lambda a, b, native, package, chosen, synchronize: package("f64").matmul)
    monkeypatch.setattr(api, "_package", lambda gpu, element="f32": SimpleNamespace(matmul=lambda a, b: taken.append(element) or a @ b))
    for one in (lambda: front.product(a.astype(np.float64).view(Array), b.astype(np.float64).view(Array)), lambda: front.in_fp64(a, b)):
        assert one().dtype == np.float64 and taken[-1] == "f64"
    monkeypatch.setattr(api, "_package", lambda gpu: package if gpu is H200 else None)
    taken.clear()
    monkeypatch.setenv("CUPY_TF32", "1")
    package.select = lambda m, n, k, batch: choice(1e-2, 1e-3)
    front.product(a[:2], b)
    assert taken == ["own"], "whose product is no FP32"
    monkeypatch.setattr(api, "LIGHT", 4 * 3 * 5 * 9)
    front.product(a[:1], b)
    assert taken == ["own"] * 2, "of light ones neither"
    monkeypatch.delenv("CUPY_TF32")
    taken.clear()
    monkeypatch.setattr(api, "_package", None)
    front.product(a[:, :4], b)
    assert taken == ["cupy"], "a light product asks for no library"
    monkeypatch.setattr(api, "_package", lambda gpu: package if gpu is H200 else None)
    monkeypatch.setattr(api, "LIGHT", -1)
    taken.clear()
    front.product(a, made(9, 8).view(Array))
    assert taken == ["cupy"]
    with pytest.raises(SpecError, match="do not fit"):
        front.product(a, a)

    def refuses(m, n, k, batch):
        raise KeyError("refused")

    package.select = refuses
    taken.clear()
    assert len(noticed(lambda: front.product(a, made(9, 6).view(Array)))[1]) == 1 and taken == ["cupy"]


def lying(kind="float32", gpu=H200, device=0, **more):
    """An array that looks as one of a library does."""
    return SimpleNamespace(dtype=kind, shape=(4, 4), is_cuda=gpu is not None, device=SimpleNamespace(index=device), **more)


def same_bits(a, b, package=None):
    """What kernels of the same bits make of two such arrays, and what is asked of the library."""
    asked = []
    cuda = SimpleNamespace(device=lambda device: nullcontext())
    front = SimpleNamespace(name="torch", _here=lambda index: H200, home=SimpleNamespace(cuda=cuda))
    library = SimpleNamespace(matmul=lambda a, b: asked.append((a.dtype, b.dtype)) or "product", Error=KeyError)
    found = package or (lambda *given: asked.append(given) or library)
    return reproducible.reproducible_product(front, found, a, b), asked


@pytest.mark.parametrize(("kind", "element"), [("float32", "f32"), ("torch.complex64", "c64"), ("complex128", "c128"), ("torch.float64", "f64")])
def test_the_same_bits_are_by_kernels_alone(kind, element):
    assert same_bits(lying(kind), lying(kind)) == ("product", [(H200, element, kept.SAME_BITS), (kind, kind)])


def refusing(*given):
    def matmul(a, b):
        raise KeyError("no kernel")

    return SimpleNamespace(matmul=matmul, Error=KeyError)


@pytest.mark.parametrize(("given", "problem", "got"), [
    ((lying(gpu=None), lying()), "takes arrays of CuPy and torch", "SimpleNamespace"), ((lying(), lying("float64")), "takes arrays of one type", "float64"),
    ((lying("int8"), lying("int8")), "takes arrays of one type", "int8"), ((lying(), lying(device=1)), "takes arrays of one type", "index=1"),
    ((lying("float64", requires_grad=True), lying("float64")), "has gradients of float32 alone", "float64"),
    ((lying(), lying(), lambda *given: None), "has no library", "float32"), ((lying(), lying(), refusing), "is refused by", "no kernel"),
])
def test_what_has_not_the_same_bits_everywhere_is_refused(given, problem, got):
    with pytest.raises(SpecError) as refused:
        same_bits(*given)
    assert refused.value.where == "matmul: accuracy" and refused.value.problem.startswith(f"reproducible {problem}") and got in str(refused.value.got)


def test_shapes_that_do_not_fit_are_refused_before_a_library_is_asked_for():
    with pytest.raises(SpecError, match="do not fit"):
        same_bits(lying(), SimpleNamespace(**{**vars(lying()), "shape": (3, 4)}), lambda *given: pytest.fail("a library was asked for"))


def test_numpys_arrays_are_in_no_gpus_memory():
    with pytest.raises(SpecError, match="CuPy and torch"):
        api.matmul(made(3, 3), made(3, 3), accuracy="reproducible")


@pytest.mark.parametrize(("kind", "element", "least"), [("float64", "f64", 1024), ("torch.complex64", "c64", 256), ("complex128", "c128", 256)])
@pytest.mark.parametrize(("less", "answer", "own"), [(0, (1e-3, 2e-3), True), (0, (2e-3, 1e-3), False), (1, (1e-3, 2e-3), False), (0, None, False), (0, KeyError, False)])
def test_others_than_float32_by_a_library_of_their_type_where_it_is_faster_and_large(less, answer, own, kind, element, least):
    """Small products ask for no library, whose kernels take the type that is asked for."""
    def select(m, n, k, batch, dtype):
        assert (m, n, k, batch, dtype) == (size, 2048, 256, 2, kind.removeprefix("torch."))
        if answer is KeyError:
            raise KeyError("not served")
        return choice(*answer)

    asked, size = [], least - less
    package = answer and SimpleNamespace(select=select, matmul="own", Error=KeyError)
    a, b = SimpleNamespace(shape=(2, size, 256), dtype=kind), SimpleNamespace(shape=(2, 256, 2048), dtype=kind)
    chosen = lambda choices, own, vendor, a, b, synchronize: own if choices[0].seconds < choices[0].sgemm_seconds else vendor
    assert wide_product(a, b, "native", lambda element: asked.append(element) or package, chosen, None) == ("own" if own else "native")
    assert asked == ([] if less else [element])


@pytest.mark.parametrize("kind", ["float64", "complex64"])
@pytest.mark.parametrize("home", ["cupy", "torch"])
def test_others_than_float32_on_the_second_device_are_chosen_there(home, kind, monkeypatch):
    """By the library of that device's model, while that device is current; gradients are the array library's own. Nothing is timed in a capture."""
    current, asked, capturing = [0], [], [False]

    class On:
        def __init__(self, index):
            self.id = self.index = index

        def __enter__(self):
            current.append(self.index)

        def __exit__(self, *given):
            current.pop()

    def wide(a, b, native, package, chosen, synchronize):
        assert (current[-1], package("f64"), chosen, synchronize and synchronize()) == (1, "its library", api._chosen, None if capturing[0] else "all done")
        return lambda a, b: "by the library"

    monkeypatch.setattr(api, "wide_product", wide)
    monkeypatch.setattr("gemmgen.library.kept.package", lambda gpu, progress, element: asked.append((gpu, element)) or "its library")
    monkeypatch.setattr("gemmgen.run.here.cuda_gpus", lambda: (Here("NVIDIA H100", "sm_90", 132, 13000), H200))
    done = lambda: "all done"
    cuda = SimpleNamespace(is_current_stream_capturing=lambda: capturing[0], synchronize=done, device=lambda on: on,
                           get_current_stream=lambda: SimpleNamespace(synchronize=done))
    known = dict(shape=(4, 4), dtype=kind, device=On(1), layout="strided", is_cuda=True, is_nested=False, is_quantized=False, is_neg=lambda: False)
    array = lambda graded: SimpleNamespace(requires_grad=graded, detach=lambda: array(False), **known)
    module = SimpleNamespace(__name__=home, matmul=lambda a, b: "native", cuda=cuda, float64="float64", strided="strided", no_grad=nullcontext,
                             version=SimpleNamespace(hip=None), is_grad_enabled=lambda: True,
                             autograd=SimpleNamespace(forward_ad=SimpleNamespace(_current_level=-1)))
    front = object.__new__({"cupy": api._Cupy, "torch": api._Torch}[home])
    front.home, front.name, front._plain, front._watched = module, home, {SimpleNamespace}, lambda: False
    product = front._decided(array(False), array(False))
    assert asked == [(H200, "f64")] and current == [0] and product(array(False), array(False)) == "by the library"
    if home == "torch":
        capturing[0] = True
        front._decided(array(False), array(False))
        assert product(array(True), array(False)) == product(array(False), array(True)) == "native"


@pytest.mark.parametrize("home", ["cupy", "torch"])
@pytest.mark.parametrize("which", ["a", "b"])
def test_each_device_and_type_has_a_choice_of_its_own(home, which):
    front, decided = object.__new__({"cupy": api._Cupy, "torch": api._Torch}[home]), []
    front._known, front._plain, front._watched = {}, {SimpleNamespace}, lambda: False
    front.home = SimpleNamespace(compiler=SimpleNamespace(is_compiling=lambda: False), jit=SimpleNamespace(is_tracing=lambda: False))
    front._decided = lambda a, b: decided.append((a, b)) or (lambda x, y: (a, b))

    def array(device=0, dtype="float64", row=4):
        return SimpleNamespace(shape=(4, 4), strides=(row, 1), stride=lambda: (row, 1), dtype=dtype, layout="strided",
                               device=SimpleNamespace(id=device) if home == "cupy" else device, data=SimpleNamespace(device_id=device))

    usual, others = array(), [array(), array(device=1), array(dtype="float32"), array(row=8)]
    for _ in range(2):
        for number, other in enumerate(others):
            given = (other, usual) if which == "a" else (usual, other)
            found = front.product(*given)
            assert found == decided[number] and all(x is y for x, y in zip(found, given))
    assert len(decided) == len(others)


# ---- torch


@pytest.fixture
def torch(monkeypatch):
    """torch, whose tensors of the CPU stand for a GPU's: the reference library multiplies them, light ones too."""
    monkeypatch.setattr(api, "LIGHT", -1)
    torch = pytest.importorskip("torch")
    operators = reference.imported("lab.torch")
    monkeypatch.setattr(api._Torch, "_operators", lambda self, device: operators)
    monkeypatch.setattr(api, "_first_is_faster", lambda *given: True)
    return torch


@pytest.fixture
def calls():
    return reference.load().lab_calls


def tensors(torch, *shapes):
    return [torch.from_numpy(made(*shape, seed=seed)) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize(("a", "b"), [((5, 9), (9, 7)), ((3, 5, 9), (9, 7)), ((2, 1, 5, 9), (3, 9, 7)), ((2, 3, 5, 9), (2, 3, 9, 7))])
def test_torchs_tensors_by_the_library(torch, calls, a, b):
    a, b = tensors(torch, a, b)
    for x, y in ((a, b), (a.mT.contiguous().mT, b), (a, b.mT.contiguous().mT)):
        for _ in range(2):
            before = calls()
            close(gemmgen.matmul(x, y), x.double() @ y.double())
            assert calls() > before
    front = api._front(torch)
    assert len(front._known) == len({(x.stride(), y.stride()) for x, y in ((a, b), (a.mT.contiguous().mT, b), (a, b.mT.contiguous().mT))})


def test_a_second_call_looks_nothing_up(torch, monkeypatch):
    a, b = tensors(torch, (5, 9), (9, 7))
    gemmgen.matmul(a, b)
    for name in ("_decided", "_operators", "_vendor"):
        monkeypatch.setattr(api._Torch, name, None)
    monkeypatch.setattr(api, "check_shapes", None)
    close(gemmgen.matmul(a + 1, b), (a + 1) @ b)


def test_a_prepared_product_of_batches_that_are_no_single_one(torch):
    """One call for each of the outer products, at the place of each operand; where a copy would have to be made there is none."""
    operators = reference.imported("lab.torch")
    a, b = (x[:, :3] for x in tensors(torch, (2, 5, 6, 9), (2, 4, 9, 7)))
    run, choices = operators.prepared(a, b)
    assert len(choices) == 2
    close(run(a, b), a @ b)
    whole = torch.from_numpy(made(18, 18))
    for x, y in ((whole[::2, ::2], whole[:9]), (whole[:, :9], whole[::2, ::2]), (whole[0], whole), (whole, whole[0])):
        assert operators.prepared(x, y) is None


def test_a_prepared_product_does_not_choose_again(torch, monkeypatch):
    """Each call says the kernel, in a struct of its own: a second call begins here before the first has ended, as one of another thread may."""
    operators, seen = reference.imported("lab.torch"), []
    a, b = tensors(torch, (5, 9), (9, 7))

    class Enqueue:
        def __call__(self, address, workspace, needed, stream):
            own = operators._c.Problem.from_address(address)
            seen.append((address, own.kernel, own.a, needed))
            if len(seen) == 1:
                run(a + 1, b)
                assert own.a == a.data_ptr()
            return 0

    monkeypatch.setattr(operators._c, "library", lambda: {"lab_gemm": Enqueue()})
    monkeypatch.setattr(operators, "_choice", lambda problem, index: choice)
    choice = operators._c.Choice(1, False, "", "", 512, 0, 1.0, 1.0, 0.0, 0.0)
    run, _ = operators.prepared(a, b)
    run(a, b)
    assert len({address for address, *_ in seen}) == 2 and [one[1:] for one in seen] == [(2, one[2], 512) for one in seen]
    run(a, b)
    assert seen[2][0] in {address for address, *_ in seen[:2]}, "structs are used again"


def test_brief_products_that_torch_won_are_known_by_their_shapes(torch, calls, monkeypatch):
    """However they lie; of other types and devices there is another look."""
    operators, decided, seconds = reference.imported("lab.torch"), [], [api.BRIEF_SECONDS / 2]
    prepared, decide = operators.prepared, api._Torch._decided
    monkeypatch.setattr(operators, "prepared", lambda a, b: (prepared(a, b)[0], [choice(1.0, seconds[0])]))
    monkeypatch.setattr(api, "_first_is_faster", lambda *given: False)
    monkeypatch.setattr(api._Torch, "_decided", lambda self, a, b: decided.append(a.dtype) or decide(self, a, b))
    a, b = tensors(torch, (5, 9), (9, 7))
    before = calls()
    for x, y in ((a, b), (a.mT.contiguous().mT, b), (a, b.mT.contiguous().mT), (a.expand(5, 9), torch.nn.Parameter(b))):
        close(gemmgen.matmul(x, y).detach(), a @ b)
    assert decided == [torch.float32] and calls() == before
    got, told = noticed(lambda: gemmgen.matmul(a.double(), b.double()))
    assert got.dtype == torch.float64 and len(told) == 1 and decided[1:] == [torch.float64]
    with pytest.raises(SpecError, match="of two types"):
        gemmgen.matmul(a, b.double())
    assert gemmgen.matmul(torch.ones(5, 9, device="meta"), torch.ones(9, 7, device="meta")).is_meta
    seconds[0] = 2 * api.BRIEF_SECONDS
    decided.clear()
    for _ in range(2):
        gemmgen.matmul(a[:4], b)
        gemmgen.matmul(a.mT.contiguous().mT[:4], b)
    assert decided == [torch.float32] * 2, "a long product is decided for each way to lie"


@pytest.mark.parametrize("won", ["torch", "kernel", "light"])
def test_a_short_way_is_for_what_it_was_decided_for(torch, calls, monkeypatch, won):
    """Whatever else than the shapes differs in a later call goes the general way; the flags are flipped one by one, on the tensors of the first call."""
    from torch.utils.flop_counter import FlopCounterMode

    operators, general = reference.imported("lab.torch"), []
    if won == "torch":
        prepared = operators.prepared
        monkeypatch.setattr(operators, "prepared", lambda a, b: (prepared(a, b)[0], [choice(1.0, api.BRIEF_SECONDS / 2)]))
        monkeypatch.setattr(api, "_first_is_faster", lambda *given: False)
    elif won == "light":
        monkeypatch.setattr(api, "LIGHT", 4 * 9**2)
    a, b = tensors(torch, (9, 9), (9, 9))
    noticed(lambda: gemmgen.matmul(a, b))
    assert (api._light == api.LIGHT > 0) is (won == "light")
    by_types = api._by_types
    monkeypatch.setattr(api, "_by_types", lambda *given: general.append(given) or by_types(*given))

    def goes(x, y, short, want=None):
        general.clear()
        before = calls()
        got = gemmgen.matmul(x, y)
        close(got.detach(), ((x.double() @ y.double()) if want is None else want).detach())
        assert bool(general) is not short and (not short or (calls() > before) == (won == "kernel"))
        return got

    is_torchs = won != "kernel"
    for x, y in ((a, b), (b, a), (a, a), (a[:], b.view(9, 9)), (torch.nn.Parameter(a).detach(), b)):  # which share memory, too
        goes(x, y, True)
    for x, y in ((a.t(), b), (a, b.t()), (torch.nn.Parameter(a), b), (a, torch.nn.Parameter(b)), (torch._neg_view(a), b), (a, torch._neg_view(b)),
                 (torch.complex(a, a).conj().imag, b)):
        goes(x, y, is_torchs)
    for x, y in ((a.double(), b.double()), (a.int(), b.int())):
        assert noticed(lambda x=x, y=y: goes(x, y, False, x @ y))[0].dtype == x.dtype
    a.requires_grad_()
    assert goes(a, b, is_torchs).requires_grad and goes(b, a, is_torchs).requires_grad
    with torch.no_grad():
        assert not goes(a, b, True).requires_grad
    with torch.inference_mode():
        goes(a, b, True)
    a.requires_grad_(False)
    torch.use_deterministic_algorithms(True)
    try:
        goes(a, b, True)
    finally:
        torch.use_deterministic_algorithms(False)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(a, torch.ones(9, 9))
        close(torch.autograd.forward_ad.unpack_dual(goes(dual, b, is_torchs, a @ b)).tangent, torch.ones(9, 9) @ b)
    with FlopCounterMode(display=False) as counter:
        goes(a, b, is_torchs, a @ b)  # the expected product counts, too
    assert counter.get_total_flops() == 2 * 9**3 * (1 + is_torchs)  # operators of the library's own have no count
    close(torch.func.vmap(lambda x: gemmgen.matmul(x, b))(a.expand(3, 9, 9)), (a @ b).expand(3, 9, 9))
    for x, y, refusal in ((a, b.double(), "two types"), (a.double(), b, "two types"), (a, b.numpy(), "two libraries"), (a.numpy(), b, "two libraries")):
        with pytest.raises(SpecError, match=refusal):
            gemmgen.matmul(x, y)
    close(gemmgen.matmul(a.numpy(), b.numpy()), a @ b)
    repeated = torch.ones(1, 1).expand(9, 9)  # whose strides are those that a sparse tensor says it has
    for x, y in ((repeated, b), (a, repeated)):
        goes(x, y, is_torchs)
        for sparse in ((x.to_sparse(), y), (x, y.to_sparse()), (x.to_sparse_csr(), y)):
            close(gemmgen.matmul(*sparse), x @ y)
    assert gemmgen.matmul(a, b, "fp64").dtype == torch.float64


@pytest.mark.parametrize(("won", "which"), [("torch", "a"), ("kernel", "a"), ("kernel", "b")])
def test_a_short_way_is_one_devices(torch, won, which):
    """A tensor on another device meets neither the kernel nor the product of the first one's; of two devices torch itself refuses its product."""
    class Elsewhere(torch.Tensor):
        def get_device(self):
            return 3

    front, own = api._front(torch), lambda *given: "short"
    front._plain |= {Elsewhere}
    a, b = tensors(torch, (5, 9), (9, 7))
    (front._by_shapes if won == "torch" else front._by_strides)(a, b, own, own)
    short = api._short[a.shape, b.shape, "fp32"]
    given = (a.as_subclass(Elsewhere), b) if which == "a" else (a, b.as_subclass(Elsewhere))
    api._products[type(given[0]), type(given[1]), "fp32"] = lambda *given: "general"
    assert short(a, b) == "short" and short(*given) == "general"
    (front._by_shapes if won == "torch" else front._by_strides)(*given, own, own)
    assert api._short[a.shape, b.shape, "fp32"] is short, "the first device keeps it"


def test_light_products_are_torchs_and_ask_for_no_library(torch, monkeypatch):
    """Each operand has to be light. The first one says that there is no GPU; torch.mm is called until a product is no two matrices'."""
    monkeypatch.setattr(api, "LIGHT", 4 * 6 * 9)
    monkeypatch.setattr(api._Torch, "_operators", None)
    general, by_types = [], api._by_types
    monkeypatch.setattr(api, "_by_types", lambda *given: general.append(given) or by_types(*given))
    a, b, batch = tensors(torch, (6, 9), (9, 6), (2, 3, 9))
    _, told = noticed(lambda: gemmgen.matmul(a, b))
    assert len(told) == 1 and "torch multiplies them on the CPU" in told[0] and general.pop() and api._multiply is torch.mm
    for x, y in ((a, b), (a[:2], b[:, :3]), (a.t(), b.t()), (torch.nn.Parameter(a), torch.nn.Parameter(b))):
        close(gemmgen.matmul(x, y).detach(), x.detach() @ y.detach())
    assert not general and api._multiply is torch.mm
    for expected in (1, 0):  # another type has a notice first
        got, told = noticed(lambda: gemmgen.matmul(a[:, :4].double(), b[:4].double()))
        assert got.dtype == torch.float64 and len(told) == len(general) == expected
        general.clear()
    for _ in range(2):
        close(gemmgen.matmul(batch, b), batch @ b)
        close(gemmgen.matmul(a, b), a @ b)
    assert len(general) == 1 and api._multiply is torch.matmul, "which takes what torch.mm refuses: once"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        gemmgen.matmul(a[:3], b)  # matrices that are decided later change nothing
    assert len(general) == 2 and api._multiply is torch.matmul
    for x, y in ((torch.ones(7, 9), b), (a, torch.ones(9, 7))):
        with pytest.raises(TypeError, match="not callable"):
            gemmgen.matmul(x, y)  # asks for the library


def test_light_products_of_the_cpu_and_of_a_gpu(torch, monkeypatch):
    """The GPU's have the short way from the first one on, whatever came before; the settings are those of its device."""
    monkeypatch.setattr(api, "LIGHT", 4 * 9**2)
    monkeypatch.setattr(api, "settings", lambda torch, kind: (f"{kind}: reduced", f"{kind}: autocasts"))
    front, products = api._front(torch), {kind: f"{kind}'s" for kind in ("meta", "cpu", "cuda")}
    array = lambda kind: SimpleNamespace(is_cuda=kind == "cuda", device=SimpleNamespace(type=kind))  # noqa: E731
    for kind, opened in (("meta", ""), ("cpu", "cpu"), ("cpu", "cpu"), ("cuda", "cuda"), ("cpu", "cuda"), ("meta", "cuda")):
        noticed(lambda kind=kind: front._lighten(array(kind), products[kind]))
        assert (api._light, api._on_gpu) == (api.LIGHT if opened else -1, opened in ("", "cuda"))
        assert not opened or (api._is_reduced, api._autocasts, api._multiply) == (f"{opened}: reduced", f"{opened}: autocasts", products[opened])
    a, b = tensors(torch, (9, 9), (9, 9))
    monkeypatch.setattr(api, "_multiply", torch.mm)  # a GPU's: the CPU's tensors do not meet it
    monkeypatch.setattr(api, "_is_reduced", bool), monkeypatch.setattr(api, "_autocasts", bool)
    monkeypatch.setattr(api, "_by_types", lambda *given: "general")
    assert gemmgen.matmul(a, b) == "general"


def steps(call):
    """(functions of Python entered, attributes read, calls made) of a call, by its bytecode."""
    counted = Counter()

    def trace(frame, event, arg):
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counted["functions"] += event == "call"
        if event == "opcode":
            name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            counted["attributes"] += name in ("LOAD_ATTR", "LOAD_METHOD")
            counted["calls"] += name.startswith("CALL")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return tuple(counted[name] for name in ("functions", "attributes", "calls"))


@pytest.mark.parametrize(("way", "most"), [("light", (2, 4, 4)), ("torch", (3, 6, 8)), ("kernel", (5, 13, 18))])
def test_a_later_call_takes_few_steps_of_python(torch, monkeypatch, way, most):
    """`matmul` and torch's test of torch.compile are entered by each; then torch.mm, or a short way, a kernel's call and its workspace. The settings are a GPU's."""
    operators = reference.imported("lab.torch")
    monkeypatch.setattr(api, "settings", lambda torch, kind: torch_state.settings(torch, "cuda"))
    workspace = operators._bytes(1 << 16, torch.device("cpu"))  # of the host's memory not all begins where one may: another function is asked, each time
    monkeypatch.setattr(operators, "_bytes", lambda count, device: workspace), monkeypatch.setattr(operators._c, "ALIGNMENT", 1 << 50)
    if way == "light":
        monkeypatch.setattr(api, "LIGHT", 4 * 9**2)
    elif way == "torch":
        prepared = operators.prepared
        monkeypatch.setattr(operators, "prepared", lambda a, b: (prepared(a, b)[0], [choice(1.0, api.BRIEF_SECONDS / 2)]))
        monkeypatch.setattr(api, "_first_is_faster", lambda *given: False)
    a, b = tensors(torch, (9, 9), (9, 9))
    later = partial(gemmgen.matmul, a, b)
    for _ in range(3):
        noticed(later)
    found = steps(later)
    assert all(got <= limit for got, limit in zip(found, most)), found
    assert found[0] == most[0], "the limits are those of this way"


def test_torchs_own_test_of_tensors_is_made_of_plain_ones_alone(torch, monkeypatch):
    """And where torch has none, or another, the checks of the short way do without."""
    a, b = tensors(torch, (5, 9), (9, 7))
    found = torch_state.alike(torch, torch.nn.Parameter(a), b)
    assert found(a, b) and found(a + 1, b) and not found(torch.nn.Parameter(a), b) and not found(a.clone().requires_grad_(), b)
    assert not found(a.t().contiguous().t(), b) and not found(a, b.double()) and not found(torch._neg_view(a), b) and not found(a, b.numpy())
    assert torch_state.alike(torch, torch._neg_view(a), b) is torch_state.alike(torch, a, torch._neg_view(b)) is None
    for guards in (None, SimpleNamespace(), SimpleNamespace(TensorGuards=lambda *given: None),
                   SimpleNamespace(TensorGuards=lambda *given, **named: SimpleNamespace(check=lambda *given: True))):
        monkeypatch.setattr(torch._C._dynamo, "guards", guards)
        assert torch_state.alike(torch, a, b) is None
        for _ in range(2):
            close(gemmgen.matmul(a, b), a @ b)
        api._short.clear(), api._products.clear(), api._front.cache_clear()


def test_ways_are_timed_with_what_they_look_at(torch, monkeypatch):
    """A kernel's product alone, without the checks of a later call, would be chosen where torch's is faster."""
    timed = []
    monkeypatch.setattr(api, "_first_is_faster", lambda first, second, *given: timed.append((first.__qualname__, second.__qualname__)) or True)
    a, b = tensors(torch, (5, 9), (9, 7))
    gemmgen.matmul(a, b)
    assert timed == [("_Torch._guarded.<locals>.product", "_Torch._vendor.<locals>.product")]


def test_no_more_shapes_than_the_table_holds_have_short_ways(torch, monkeypatch):
    monkeypatch.setattr(api, "MOST_KEPT", 1)
    for m in (3, 4, 3, 4):
        a, b = tensors(torch, (m, 9), (9, 7))
        close(gemmgen.matmul(a, b), a @ b)
    assert [key[0][0] for key in api._short] == [3]


def test_a_jit_trace_has_torchs_own_operators(torch):
    a, b = tensors(torch, (5, 9), (9, 7))
    gemmgen.matmul(a, b)
    traced = torch.jit.trace(lambda x, y: gemmgen.matmul(x, y), (a, b), check_trace=False)
    close(traced(a[:3] + 1, b), (a[:3] + 1) @ b)


def test_what_lies_otherwise_is_another_product(torch):
    whole = torch.from_numpy(made(20, 20))
    for a, b in ((whole[:5, :9], whole[:9, :7]), (whole[::2, :9], whole[:9, :7]), (whole[:5, ::2], whole[:10, 3:]), (whole.T[:5, :9], whole[:9, :7]),
                 (whole[0], whole), (whole, whole[:, 1]), (whole[0], whole[1]), (whole[:0], whole), (whole[:, :0], whole[:0])):
        close(gemmgen.matmul(a, b), a @ b)


@pytest.mark.parametrize("saved", [1.5, 0.5])
def test_gradients(torch, calls, monkeypatch, saved):
    """By the library's operators where they save more than an operator costs, else by torch; the same numbers."""
    prepared = reference.imported("lab.torch").prepared
    monkeypatch.setattr(reference.imported("lab.torch"), "prepared", lambda a, b: (prepared(a, b)[0], [choice(2.0, 2.0 + saved)]))
    monkeypatch.setattr(api, "_first_is_faster", lambda *given: True)
    monkeypatch.setattr(api, "OPERATOR_SECONDS", 1.0)
    a, b = (x.requires_grad_() for x in tensors(torch, (5, 9), (9, 7)))
    gemmgen.matmul(a, b)
    before = calls()
    found = torch.autograd.grad(gemmgen.matmul(a, b).square().sum(), (a, b))
    assert (calls() > before) == (saved > 1)
    for got, want in zip(found, torch.autograd.grad((a @ b).square().sum(), (a, b))):
        close(got, want)
    with torch.no_grad():
        before = calls()
        assert not gemmgen.matmul(a, b).requires_grad and calls() > before


def test_what_looks_at_operators_sees_them(torch):
    from torch.utils.flop_counter import FlopCounterMode

    a, b = tensors(torch, (4, 5, 9), (9, 7))
    gemmgen.matmul(a[0], b)
    close(torch.func.vmap(lambda x: gemmgen.matmul(x, b))(a), a @ b)
    close(torch.func.grad(lambda x: gemmgen.matmul(x, b).sum())(a[0]), torch.func.grad(lambda x: (x @ b).sum())(a[0]))
    for negative in (torch._neg_view(a[0]), torch.complex(torch.zeros_like(a[0]), a[0]).conj().imag):  # as a[0] lies, and with gaps
        assert negative.is_neg()
        close(gemmgen.matmul(negative, b), -(a[0] @ b))
    for negative in (torch._neg_view(b), torch._neg_view(torch.from_numpy(made(7, 9)).T), torch.complex(torch.zeros_like(b), b).conj().imag):
        stored = torch._neg_view(negative)  # the numbers that lie there
        assert negative.is_neg() and not stored.is_neg()
        for _ in range(2):  # not known before, and known
            close(gemmgen.matmul(a[0], stored), a[0] @ stored)
            close(gemmgen.matmul(a[0], negative), -(a[0] @ stored))
        close(gemmgen.matmul(torch._neg_view(a[0]), negative), a[0] @ stored)
    with FlopCounterMode(display=False) as counter:
        gemmgen.matmul(torch.from_numpy(made(3, 9)), b)  # not known before, and under a mode not taken for later
    assert counter.get_total_flops() == 2 * 3 * 9 * 7
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.from_numpy(made(6, 9)), torch.ones(6, 9))
        tangent = torch.autograd.forward_ad.unpack_dual(gemmgen.matmul(dual, b)).tangent
    close(tangent, torch.ones(6, 9) @ b)


@pytest.mark.parametrize("level", [-1, 0])
def test_derivatives_forward_are_torchs_where_the_library_is_loaded(level):
    """The library's operators have none, and torch drops the derivative of such an operator without a word."""
    front = object.__new__(api._Torch)
    front._loaded = {0: SimpleNamespace(torch=SimpleNamespace(matmul=lambda a, b: "the library's"))}
    front.home = SimpleNamespace(matmul=lambda a, b: "torch's", float32="float32", autograd=SimpleNamespace(forward_ad=SimpleNamespace(_current_level=level)))
    a = SimpleNamespace(device=SimpleNamespace(type="cuda", index=0), dtype="float32")
    assert front._traced(a, a) == ("the library's" if level < 0 else "torch's")


@pytest.mark.parametrize("way", ["brief", "long", "light"])
def test_torchs_product_is_in_fp32_whatever_others_may_be(torch, monkeypatch, way):
    monkeypatch.setattr(api._Torch, "_operators", lambda self, device: None)
    if way == "light":
        monkeypatch.setattr(api, "LIGHT", 4 * 9**2)
    elif way == "long":
        monkeypatch.setattr(api._Torch, "_by_shapes", lambda self, a, b, multiply, in_fp32: in_fp32)
    a, b = tensors(torch, (5, 9), (9, 7))
    seen = []
    product = torch.mm
    noticed(lambda: gemmgen.matmul(a.bfloat16(), b.bfloat16()))  # what autocast makes of light products is then a type that has a way of its own
    monkeypatch.setattr(torch, "mm", lambda x, y: seen.append((torch.get_float32_matmul_precision(), torch.is_autocast_enabled("cpu"))) or product(x, y))
    torch.set_float32_matmul_precision("high")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert gemmgen.matmul(a, b).dtype == torch.float32
        assert gemmgen.matmul(a, b).dtype == torch.float32 and torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert gemmgen.matmul(a, b).dtype == torch.float32
        assert noticed(lambda: gemmgen.matmul(a.bfloat16(), b.bfloat16()))[0].dtype == torch.bfloat16
    assert [one for one in seen if one != ("highest", True)] == [("highest", False)] * 3 and (way == "light" or len(seen) == 3)
    if way != "long":
        monkeypatch.setattr(api, "_by_types", None)
        close(gemmgen.matmul(a, b), product(a, b))  # with none of these settings there is no other look


NEWER = """
import torch
from gemmgen import api
product, seen = torch.mm, []
torch.mm = lambda a, b: seen.append((torch.backends.mkldnn.matmul.fp32_precision, (a @ b).dtype)) or product(a, b)
a = torch.ones(2, 2)
for owner, own in ((torch.backends.mkldnn.matmul, "bf16"), (torch.backends, "bf16")):
    own_before = owner.fp32_precision
    owner.fp32_precision = own
    for way in (api._front(torch)._vendor("cpu", torch.mm), api.matmul, api.matmul):
        way(a, a)
        assert seen.pop() == ("ieee", torch.float32) and not seen
        assert owner.fp32_precision == torch.backends.mkldnn.matmul.fp32_precision == own
    owner.fp32_precision = own_before
    assert torch.backends.mkldnn.matmul.fp32_precision == own_before
torch.backends.cuda.matmul.fp32_precision = "tf32"
with api.fp32_of(torch, "cuda"):
    assert torch.backends.cuda.matmul.fp32_precision == "ieee"
assert torch.backends.cuda.matmul.fp32_precision == "tf32"
"""
"""In a process of its own: a setting of one backend stays set beside the general one."""


def test_torchs_newer_setting_of_tf32_is_put_back(torch):
    if not hasattr(torch.backends, "fp32_precision"):
        pytest.skip("torch before 2.9")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", NEWER], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


def test_other_types_of_torch_are_torchs(torch, calls):
    before = calls()
    got, told = noticed(lambda: gemmgen.matmul(torch.ones(3, 4), torch.ones(4, 2), accuracy="fp64"))
    assert got.dtype == torch.float64 and told == [], "what was asked for is no news"
    for kind in (torch.float64, torch.bfloat16, torch.int32):
        a, b = torch.ones(3, 4).to(kind), torch.ones(4, 2).to(kind)
        got, told = noticed(lambda: gemmgen.matmul(a, b))
        assert got.dtype == kind and got.tolist() == [[4, 4]] * 3 and len(told) == 1
    sparse = torch.eye(4).to_sparse()
    for one in (sparse, sparse.to_sparse_csr()):
        close(gemmgen.matmul(one, torch.ones(4, 2)), torch.ones(4, 2))
    assert calls() == before
    for b in (torch.ones(4, 2, dtype=torch.float64), np.ones((4, 2), np.float32), torch.ones(4, 2, device="meta")):
        with pytest.raises(SpecError, match="of two types|of two libraries|on two devices"):
            gemmgen.matmul(torch.ones(3, 4), b)


@pytest.mark.filterwarnings("ignore")
def test_odd_tensors_end_with_a_product_or_a_remedy(torch):
    nested, (x, y) = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)]), tensors(torch, (3, 3), (3, 3))
    quantized, truth = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), x > 0
    for accuracy in ("fp32", "fp64"):
        for a, b, where, remedy in ((nested, x, "a", "torch.nested.to_padded_tensor(a, 0.0)"), (x, nested, "b", "torch.nested.to_padded_tensor(b, 0.0)"),
                                    (quantized, quantized, "a", "a.dequantize()"), (x, quantized, "b", "b.dequantize()")):
            with pytest.raises(SpecError) as refused:
                gemmgen.matmul(a, b, accuracy)
            assert refused.value.where == f"matmul: {where}" and refused.value.remedy == remedy and refused.value.needs and refused.value.got
    with pytest.raises(SpecError, match="no product for") as refused:
        gemmgen.matmul(truth, truth)
    close(eval(refused.value.remedy, {"gemmgen": gemmgen, "a": truth, "b": truth}), truth.double() @ truth.double())
    assert gemmgen.matmul(truth, truth, "fp64").dtype == torch.float64
    turned = gemmgen.matmul(x + 1j * y, y, "fp64")
    assert turned.dtype == torch.complex128
    close(turned.imag, y.double() @ y.double())
    for a, b, remedy in ((x, y.numpy(), "torch.asarray(b)"), (x.numpy(), y, "torch.asarray(a)"), (x, y.tolist(), "torch.asarray(b)")):
        with pytest.raises(SpecError, match="two libraries") as refused:
            gemmgen.matmul(a, b)
        assert refused.value.remedy == remedy
        close(gemmgen.matmul(*(eval(remedy, {"torch": torch, "a": a, "b": b}) if name in remedy else given for name, given in (("(a)", a), ("(b)", b)))), x @ y)


def test_what_the_library_refuses_is_torchs_and_told_once(torch, monkeypatch):
    from lab import _c

    operators = reference.imported("lab.torch")

    def refuses(*given):
        raise _c.Error(_c.NOT_SERVED)

    monkeypatch.setattr(operators, "prepared", refuses)
    a, b = tensors(torch, (5, 9), (9, 7))
    got, told = noticed(lambda: (gemmgen.matmul(a, b), gemmgen.matmul(a[:4], b)))
    close(got[0], a @ b)
    assert len(told) == 1 and "torch multiplies" in told[0] and "(-21)" in told[0]


def test_threads_share_a_product(torch):
    a, b = tensors(torch, (40, 50), (50, 45))
    gemmgen.matmul(a, b)
    wrong = []

    def run(number):
        x = a + number
        want = x @ b
        for _ in range(200):
            if not torch.allclose(gemmgen.matmul(x, b), want, atol=1e-3):
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.slow
def test_a_compiled_program_has_torchs_own_operators(torch):
    a, b = tensors(torch, (5, 9), (9, 7))
    gemmgen.matmul(a, b)
    compiled = torch.compile(lambda x, y: gemmgen.matmul(x, y) + 1, backend="eager", fullgraph=True)  # a table that is read would break the graph
    for m in (5, 4, 3):
        close(compiled(a[:m], b), a[:m] @ b + 1)


# ---- JAX


def jax_of(backend="gpu"):
    """JAX's products with NumPy in its place."""
    def matmul(a, b, *, precision=None):
        assert precision == "highest" or a.dtype == b.dtype == np.float64, "JAX may use TF32 otherwise"
        return np.matmul(a, b)

    return api._Jax(SimpleNamespace(
        __name__="jax", jit=lambda function: function, numpy=SimpleNamespace(matmul=matmul, result_type=np.result_type, float64=np.float64),
        default_backend=lambda: backend, config=SimpleNamespace(jax_enable_x64=True)))


def test_jax_multiplies_other_types_itself_and_says_so(monkeypatch):
    monkeypatch.setattr(api._Jax, "_package", lambda self: pytest.fail("a library was asked for"))
    a, b = made(3, 4).astype(np.float16), made(4, 5)
    for left, right, kind in ((a, a.T, "float16"), (b.astype(np.int32), b.T.astype(np.int32), "int32"), (a, b.astype(np.float64), "float64")):
        got, told = noticed(lambda: jax_of().product(left, right))
        assert np.array_equal(got, left @ right) and len(told) == 1 and told[0].startswith(f"gemmgen.matmul: {kind} arrays are multiplied by jax in ")
    wide = jax_of().in_fp64(a, b.astype(np.float32))
    assert wide.dtype == np.float64 and np.array_equal(wide, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize(("backend", "gpus", "asked"), [("gpu", [H200], [H200]), ("cpu", [H200], []), ("gpu", [], [])])
def test_jax_asks_for_the_library_of_the_gpu_that_it_computes_on(backend, gpus, asked, monkeypatch):
    found = []
    monkeypatch.setattr("gemmgen.run.here.cuda_gpus", lambda: gpus)
    monkeypatch.setattr(api, "_package", lambda gpu: found.append(gpu) or "a library")
    package, told = noticed(jax_of(backend)._package)
    assert found == asked and package == ("a library" if asked else None) and len(told) == (not asked)


@pytest.mark.parametrize(("a", "b", "asked", "answer", "faster"), [
    ((4, 5), (5, 6), (4, 6, 5, 1), (1.0, 2.0, False), True), ((2, 4, 5), (5, 6), (4, 6, 5, 2), (1.0, 2.0, False), True), ((4, 5), (5, 6), (4, 6, 5, 1), (2.0, 2.0, False), False),
    ((4, 5), (5, 6), (4, 6, 5, 1), (1.0, 2.0, True), False), ((4, 5), (5, 6), (4, 6, 5, 1), None, False), ((5,), (5, 6), None, None, False), ((4, 0), (0, 6), None, None, False),
])
def test_jax_takes_the_library_where_it_is_predicted_to_be_faster(a, b, asked, answer, faster):
    given = []

    def select(m, n, k, batch):
        given.append((m, n, k, batch))
        if answer is None:
            raise KeyError("not served")
        return SimpleNamespace(**dict(zip(("seconds", "sgemm_seconds", "is_fallback"), answer)))

    found, told = noticed(lambda: api._Jax._is_faster(SimpleNamespace(select=select, Error=KeyError), a, b))
    assert found is faster and given == ([asked] if asked else []) and len(told) == (asked is not None and answer is None)


def test_jaxs_arrays_by_the_library(monkeypatch, calls):
    jax = pytest.importorskip("jax")
    package = reference.imported()
    reference.compile_xla()
    monkeypatch.setattr(api._Jax, "_package", lambda self: package)
    monkeypatch.setattr(api, "LIGHT", -1)
    a, b = (jax.numpy.asarray(made(*shape)) for shape in ((3, 5, 9), (9, 7)))
    before = calls()
    close(gemmgen.matmul(a, b), np.asarray(a) @ np.asarray(b))
    assert calls() > before
    close(jax.jit(gemmgen.matmul)(a, b), np.asarray(a) @ np.asarray(b))
    for got, want in zip(jax.grad(lambda x, y: gemmgen.matmul(x, y).sum(), (0, 1))(a, b), jax.grad(lambda x, y: (x @ y).sum(), (0, 1))(a, b)):
        close(got, want)
    close(jax.vmap(gemmgen.matmul, (0, None))(a, b), np.asarray(a) @ np.asarray(b))
    monkeypatch.setattr(package, "select", lambda *given, **named: choice(2.0, 1.0))
    api._front.cache_clear()
    api._products.clear()
    before = calls()
    close(gemmgen.matmul(a[0], b), np.asarray(a)[0] @ np.asarray(b))
    assert calls() == before, "the vendor's is predicted to be faster"
    monkeypatch.setattr(api, "LIGHT", 4 * 5 * 9)
    monkeypatch.setattr(api._Jax, "_package", None)
    close(gemmgen.matmul(a[0, :4], b[:, :5]), np.asarray(a)[0, :4] @ np.asarray(b)[:, :5])  # a light product asks for no library
    with pytest.raises(TypeError, match="not callable"):
        gemmgen.matmul(a[0, :4], b)
    with pytest.raises(SpecError, match="not enabled"):
        gemmgen.matmul(a, b, accuracy="fp64")
    with pytest.raises(SpecError, match="do not fit"):
        gemmgen.matmul(a, a)


# ---- any other library


def test_arrays_of_another_library_are_its_own():
    class Array:
        shape, dtype = (2, 2), "other.float32"

        def __array_namespace__(self):
            return namespace

    namespace = ModuleType("other")
    namespace.matmul, namespace.astype, namespace.float64 = (lambda a, b: ("a product", a, b)), (lambda x, kind: kind), "float64"
    got, told = noticed(lambda: gemmgen.matmul(Array(), Array()))
    assert got[0] == "a product" and len(told) == 1 and "other multiplies its arrays itself" in told[0]
    assert gemmgen.matmul(Array(), Array(), accuracy="fp64")[1:] == ("float64", "float64")
    Array.dtype, namespace.complex128 = "other.complex64", "complex128"
    assert gemmgen.matmul(Array(), Array(), accuracy="fp64")[1:] == ("complex128", "complex128")


# ---- what the package shows


def test_public_names_are_listed_and_typed():
    """The stub, which type checkers read, names what is there; nothing else shows."""
    stub = ast.parse((Path(gemmgen.__file__).with_suffix(".pyi")).read_text())
    imported = {alias.asname: f"{node.module}.{alias.name}" for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    [listed] = [ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign)]
    assert sorted(dir(gemmgen)) == sorted(gemmgen.__all__) == sorted(listed) == sorted({*imported, "__version__"})
    for name, home in imported.items():
        module, _, attribute = home.rpartition(".")
        assert name in ("road", "errors", "verify") or getattr(import_module(module), attribute) is getattr(gemmgen, name), name
    assert Path(gemmgen.__file__).with_name("py.typed").is_file()
    for name in ("matmul", "explain", "tune"):
        signature = inspect.signature(getattr(gemmgen, name))
        assert signature.return_annotation is not inspect.Signature.empty and all(one.annotation is not one.empty for one in signature.parameters.values())
    assert dir(road) == sorted(road.__all__) and not {"os", "Any", "Callable"} & set(dir(road))
    functions = {name for name, value in vars(road).items() if inspect.isfunction(value) and value.__module__ == road.__name__ and not name.startswith("_")}
    assert functions <= set(road.__all__)
    with pytest.raises(AttributeError, match="no attribute 'matmull'"):
        gemmgen.matmull  # noqa: B018


def test_verify_is_a_room_and_a_function(monkeypatch):
    import gemmgen.verify as room

    monkeypatch.setattr(road, "verify", lambda *given, **named: (given, named))
    assert gemmgen.verify is room and gemmgen.verify("a spec", size=(1, 2, 3)) == (("a spec",), {"size": (1, 2, 3)})


def test_importing_the_package_takes_no_heavy_library_and_little_time():
    program = "import sys, time; t = time.perf_counter(); import gemmgen; print(time.perf_counter() - t, *{'numpy', 'sympy', 'torch'} & set(sys.modules))"
    took = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split() for _ in range(3)]
    assert all(len(one) == 1 for one in took) and min(float(one[0]) for one in took) < 0.05


def test_values_show_themselves_in_a_line_and_in_a_table():
    from gemmgen.paths import SPECS

    spec = road.load(SPECS / "kernels" / "sgemm_a100.toml")
    planned = road.render(spec)
    explanation = road.explain(spec)
    ran, alone = Result(np.ones((300, 200), np.float32), {"a_lossy": 3, "b_lossy": 0}, 0.00125, False), Result(np.ones((300, 200)))
    batch = BatchResult((np.ones(3), np.ones(4)), {}, None, True)
    points = [Point(scheme=name, promote=promote, sums="plain", policy="mma", errors={"uniform": 1e-7}, figure=1e-7, worst=1e-5, seconds=1e-3, tflops=1.0,
                    beaten_by=beaten, meets=None, sums_in_unit=True, chooses_sums=False, word="f16", file="")
              for name, promote, beaten in (("half", 0, ""), ("ootomo", 64, ""), ("slow", 0, "half"))]
    ways = Frontier("a100", (64, 64, 64), "uniform", "", tuple(points), (("wide", "no fragment"),))
    assert "\n" not in repr(explanation) and "1.0 TFLOP/s" not in repr(explanation) and "registers a thread" in repr(explanation)
    for value, words in ((spec, "sgemm_a100.toml, gpu a100"), (planned, "kernel gemmgen_ootomo_mma"), (planned.plan, "gpu a100, scheme ootomo"),
                         (planned.source, "arch sm_80"), (explanation, "predicted 2."), (ran, "c float32 [300, 200], time 1.25 ms, counted a_lossy 3, wrote outside"),
                         (ways, "points 3, half 1 ms, error 1.0e-07, ootomo, 64 1 ms, error 1.0e-07, no plan 1")):
        assert words in repr(value) and str(value) == repr(value) and "\n" not in repr(value) and len(repr(value)) < 500
        page = value._repr_html_()
        assert page.startswith("<table>") and page.count("<tr>") == len(value._rows()) >= 4
    assert repr(alone) == "<Result: c float64 [300, 200]>" and repr(batch) == "<BatchResult: products 2>"
    from gemmgen.build.binary import Binary

    binary = Binary("sm_80", b"\x00" * 10, "ptx", {}, "<b>", "", "0" * 64, "k.cu", False, 1.0)
    assert "bytes 10" in repr(binary) and "\\x00" not in repr(binary) and "<td style='text-align:left'>&lt;b&gt;</td>" in binary._repr_html_()


X = np.ones((2, 2), np.float32)


@pytest.mark.parametrize(("call", "where", "remedy"), [
    (lambda: gemmgen.explain(None), "spec", "scaled_a100"), (lambda: gemmgen.explain(["scaled_a100"]), "spec", "scaled_a100"),
    (lambda: gemmgen.explain("scaled_a100", gpu=3), "gpu", 'gpu="a100"'),
    (lambda: gemmgen.tune(64.0, 64, 64), "tune", "tune(4096, 4096, 4096)"), (lambda: gemmgen.tune("64", 64, 64), "tune", "tune(4096, 4096, 4096)"),
    (lambda: gemmgen.tune(), "tune", "tune(4096, 4096, 4096)"), (lambda: gemmgen.tune(64, 64, 64, gpu="a100", budget=None), "tune: budget", '"2 min"'),
    (lambda: gemmgen.tune(64, 64, 64, gpu="a100", accuracy=None), "tune: accuracy", '"fp32"'),
    (lambda: gemmgen.tune(64, 64, 64, gpu="a100", store=3), "tune: store", '"my_store"'),
    (lambda: road.multiply(None, [[1.0]], X), "a", "numpy.asarray(a, 'float32')"), (lambda: road.multiply(None, X, None, [1.0]), "c", "numpy.asarray(c"),
    (lambda: road.multiply(None, X, np.ma.masked_equal(X, 1)), "b", "b.filled(0)"),
    (lambda: check_extents(X.astype(">f4"), X, None), "a", "a.astype('float32')"),
])
def test_odd_arguments_of_the_other_calls_have_a_remedy(call, where, remedy):
    with pytest.raises(SpecError) as refused:
        call()
    assert refused.value.where == where and remedy in refused.value.remedy and refused.value.needs


# ---- the benchmark


@pytest.mark.parametrize(("call", "product", "said"), [
    ((10, 15.1), (20, 20), "missed: the host's 5.1 us more"), ((10, 15), (20, 20), ""), ((10, 10.6), (10.1, 10.7), "missed: 6% more, of the host"),
    ((5, 5.4), (8, 8.45), ""), ((5, 5), (20, 22), "missed: 10% more, of the GPU"), ((5, 19), (20, 22), "missed: the host's 14.0 us more"), ((5, 5), (20, 21), ""),
])
def test_the_benchmark_names_what_misses_a_bar(call, product, said):
    """By 5 us of the host, or by 5 % and half a microsecond of a product, whose time is the host's where a call takes as long."""
    path = Path(__file__).parents[2] / "bench" / "matmul.py"
    if not path.is_file():
        pytest.skip("no bench/ in this distribution")
    spec = spec_from_file_location("bench_matmul", path)
    spec.loader.exec_module(bench := module_from_spec(spec))
    row = bench.told({"torch.mm": (call[0], product[0], 30.0), "gemmgen": (call[1], product[1], 31.0)}, "torch.mm")
    assert bench.missed(row) == said and (row["rival_alone_us"], row["alone_us"]) == (30.0, 31.0)
    now, seconds = [0.0], {"call": 1e-6, "wait": 4e-6}
    bench.time = SimpleNamespace(perf_counter=lambda: now[0])
    spend = lambda what: now.__setitem__(0, now[0] + seconds[what])  # noqa: E731
    assert bench.timed({"one": lambda: spend("call")}, lambda: spend("wait"), 2) == {"one": pytest.approx((1, 3, 5))}
