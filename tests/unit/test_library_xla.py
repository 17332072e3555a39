"""The handler of a library for XLA, called as XLA calls it, without XLA: frames made by hand over the reference library. tests/unit/test_library_jax.py has the
real one."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

import reference

P, I32, I64, SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_size_t
INITIALIZE, EXECUTE = 2, 3
INVALID, EXHAUSTED, FAILED, INTERNAL = 3, 8, 9, 13
"""XLA's codes."""


def struct(name, **fields):
    return type(name, (ctypes.Structure,), {"_fields_": [("size", SIZE), ("start", P), *fields.items()]})


Version = struct("Version", major=I32, minor=I32)
Buffer = struct("Buffer", type=I32, data=P, rank=I64, extents=P)
Buffers = struct("Buffers", count=I64, types=P, each=P)
Attributes = struct("Attributes", count=I64, types=P, names=P, each=P)
ErrorCreate = struct("ErrorCreate", message=ctypes.c_char_p, code=I32)
ErrorDestroy = struct("ErrorDestroy", error=P)
StreamGet = struct("StreamGet", context=P, stream=P)
Frame = struct("Frame", api=P, context=P, stage=I32, operands=Buffers, results=Buffers, given=Attributes)


class Metadata(ctypes.Structure):
    _fields_ = [("size", SIZE), ("version", Version), ("traits", ctypes.c_uint32)]


class Extension(ctypes.Structure):
    _fields_ = [("size", SIZE), ("type", I32), ("next", P), ("told", P)]


class Span(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("length", SIZE)]


class Scalar(ctypes.Structure):
    _fields_ = [("type", I32), ("value", P)]


CREATE, DESTROY, STREAM = (ctypes.CFUNCTYPE(result, ctypes.POINTER(kind)) for result, kind in ((P, ErrorCreate), (None, ErrorDestroy), (P, StreamGet)))
Api = struct("Api", version=Version, internal=P, create_error=CREATE, get_message=P, destroy_error=DESTROY, register_handler=P, get_stream=STREAM)


class Xla:
    """The handler, and what it told."""

    def __init__(self, library):
        self.library, self.handler = library, ctypes.CDLL(str(reference.compile_xla()))
        self.handler.lab_xla_gemm.restype = P
        self.errors, self.destroyed, self.stream, self.stream_fails, self.contexts = [], [], None, None, []
        self.api = Api(create_error=CREATE(self._error), destroy_error=DESTROY(lambda given: self.destroyed.append(given.contents.error)),
                       get_stream=STREAM(self._stream))

    def _error(self, given):
        self.errors.append((given.contents.code, given.contents.message.decode()))
        return 0xe0

    def _stream(self, given):
        self.contexts.append(given.contents.context)
        given.contents.stream = self.stream
        return self.stream_fails

    def bind(self, gemm=None, prepare=None):
        functions = gemm or self.library.lab_gemm, prepare or self.library.lab_prepare, self.library.lab_error_string
        self.handler.lab_xla_bind(*(ctypes.cast(function, P) for function in functions))

    def call(self, operands, results, attributes=None, stage=EXECUTE, types=None, names=("transpose_a", "transpose_b", "epilogue"), kind=5, form=3,
             stream=True):
        """None, or the error's code."""
        kept = []

        def at(value):
            kept.append(value)
            return ctypes.addressof(value)

        def buffers(arrays, of):
            each = [Buffer(type=one, data=array.ctypes.data, rank=array.ndim, extents=at((I64 * max(1, array.ndim))(*array.shape)))
                    for array, one in zip(arrays, of)]
            return Buffers(count=len(each), each=at((P * max(1, len(each)))(*map(at, each))))

        types = types or [{np.dtype(np.float32): 11, np.dtype(np.uint8): 6}[array.dtype] for array in (*operands, *results)]
        values = [at(Scalar(kind, at(I64(value)))) for value in attributes or (0, 0, 0)]
        given = Attributes(count=len(names), types=at((I32 * 8)(*[form] * len(names))), each=at((P * 8)(*values)),
                           names=at((P * 8)(*(at(Span(name.encode() + b"xx", len(name))) for name in names))))
        if not stream:
            self.api.get_stream = STREAM()
        frame = Frame(api=ctypes.addressof(self.api), context=0xc0, stage=stage, operands=buffers(operands, types),
                      results=buffers(results, types[len(operands):]),
                      given=given)
        self.errors.clear()
        failed = self.handler.lab_xla_gemm(ctypes.byref(frame))
        self.api.get_stream = STREAM(self._stream)
        assert bool(failed) == bool(self.errors) and failed in (None, 0xe0)
        return self.errors[0] if self.errors else None


@pytest.fixture(scope="module")
def lab():
    reference.imported()
    library = reference.load()
    return Xla(library)


@pytest.fixture
def xla(lab):
    lab.bind()
    lab.stream = lab.stream_fails = None
    lab.destroyed.clear()
    lab.contexts.clear()
    return lab


def made(*shape, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def scratch(size=1280):
    return np.zeros(size, np.uint8)


def test_a_handler_that_was_not_bound_says_so():
    fresh = Xla(reference.load())
    fresh.handler.lab_xla_bind(None, None, None)
    assert fresh.call([made(5, 9), made(9, 7)], [made(5, 7), scratch()]) == (FAILED, "lab: the handler was not told where the library is")


def test_what_it_says_of_itself(xla):
    told = Metadata()
    frame = Frame(start=ctypes.addressof(Extension(type=1, told=ctypes.addressof(told))))
    assert xla.handler.lab_xla_gemm(ctypes.byref(frame)) is None
    assert (told.version.major, told.version.minor, told.traits) == (0, 1, 1)


@pytest.mark.parametrize("batch_a, batch_b", [(None, None), (3, 3), (1, 3), (3, 1), (1, 1)])
def test_products_of_every_layout(xla, batch_a, batch_b):
    """Matrices and batches, of which one may be shared; transposed, with a bias, with activations."""
    bias = made(7, seed=3)
    for ta in (0, 1):
        for tb in (0, 1):
            a, b = made(*([batch_a] if batch_a else []), 5, 9), made(*([batch_b] if batch_b else []), 9, 7, seed=1)
            want = a @ b
            for epilogue, given in ((0, []), (1, []), (1, [bias]), (0, [bias])):
                c = np.full(want.shape, np.nan, np.float32)
                x, y = (np.ascontiguousarray(one.swapaxes(-1, -2)) if turned else one for one, turned in ((a, ta), (b, tb)))
                assert xla.call([x, y, *given], [c, scratch()], (ta, tb, epilogue)) is None
                expected = want + (bias if given else 0)
                np.testing.assert_array_equal(c, np.maximum(expected, 0) if epilogue else expected)


def test_shapes_with_nothing_in_them(xla):
    c = np.full((5, 7), np.nan, np.float32)
    assert xla.call([made(5, 0), made(0, 7)], [c, scratch(0)]) is None and not c.any()
    assert xla.call([made(0, 9), made(9, 7)], [made(0, 7), scratch()]) is None
    before = xla.library.lab_calls()
    assert xla.call([made(0, 5, 9), made(0, 9, 7)], [made(0, 5, 7), scratch()]) is None and xla.library.lab_calls() == before


def test_stages(xla):
    """Kernels are loaded at initialisation; nothing happens at the others but execution."""
    told = []
    prepare = ctypes.CFUNCTYPE(I32)(lambda: told.append("prepare") or len(told) - 1)
    xla.bind(prepare=prepare)
    a, b, c = made(5, 9), made(9, 7), np.zeros((5, 7), np.float32)
    for stage in (0, 1):
        assert xla.call([a, b], [c, scratch()], stage=stage) is None and not told and not c.any()
    assert xla.call([a, b], [c, scratch()], stage=INITIALIZE) is None and told == ["prepare"] and not c.any()
    assert xla.call([a, b], [c, scratch()], stage=INITIALIZE) == (INTERNAL, "an error of the driver")


GEMM = ctypes.CFUNCTYPE(I32, P, P, SIZE, P)


def test_workspaces_streams_and_errors(xla):
    """The workspace from its first aligned byte on; none where it is too small; the library's own where the program was compiled for another device."""
    from lab import _c

    seen, answers = [], []

    def gemm(problem, workspace, size, stream):
        seen.append(SimpleNamespace(problem=_c.Problem.from_buffer_copy(ctypes.string_at(problem, ctypes.sizeof(_c.Problem))), workspace=workspace, size=size,
                                    stream=stream))
        return answers.pop(0) if answers else 0

    xla.bind(gemm=(held := GEMM(gemm)))
    a, b, c = made(3, 5, 9), made(3, 9, 7), made(3, 5, 7)
    memory = np.zeros(4096, np.uint8)
    first = -memory.ctypes.data % 256
    for begins, size, aside in ((first, 1280, 0), (first + 1, 1280, 255), (first + 255, 1280, 1), (first + 1, 256, 255)):
        xla.call([a, b], [c, memory[begins:begins + size]])
        assert (seen[-1].workspace, seen[-1].size) == (memory.ctypes.data + begins + aside, size - aside)
    for begins, size in ((first + 1, 255), (first + 1, 10), (first, 0)):
        xla.call([a, b], [c, memory[begins:begins + size]])
        assert (seen[-1].workspace, seen[-1].size) == (None, 0)
    problem = seen[0].problem
    assert {name: getattr(problem, name) for name, _ in _c.Problem._fields_} == {
        "size": ctypes.sizeof(_c.Problem), "order": 0, "transpose_a": 0, "transpose_b": 0, "epilogue": 0, "m": 5, "n": 7, "k": 9, "lda": 9, "ldb": 7, "ldc": 7,
        "batch": 3, "stride_a": 45, "stride_b": 63, "stride_c": 35, "a": a.ctypes.data, "b": b.ctypes.data, "c": c.ctypes.data, "alpha": None, "beta": None,
        "bias": None, "flags": 2, "kernel": 0, "largest_error": 0, "kind": 0, "uplo": 0, "side": 0, "diag": 0, "element": 0}
    xla.stream = 0x123
    xla.call([a, b], [c, scratch()])
    assert seen[-1].stream == 0x123 and set(xla.contexts) == {0xc0} and not xla.destroyed
    xla.stream_fails = 0xee  # of the CPU there is no stream
    xla.call([a, b], [c, scratch()])
    assert seen[-1].stream is None and xla.destroyed == [0xee]
    xla.call([a, b], [c, scratch()], stream=False)
    assert seen[-1].stream is None
    count = len(seen)
    answers[:] = [-17]
    assert xla.call([a, b], [c, scratch()]) is None and [(one.workspace, one.size) for one in seen[count + 1:]] == [(None, 0)]
    for code, told in ((-24, EXHAUSTED), (-21, INVALID), (-14, INVALID), (2, INTERNAL)):
        answers[:] = [code]
        assert xla.call([a, b], [c, scratch()]) == (told, xla_words(xla, code))
    answers[:] = [-17, -17]
    assert xla.call([a, b], [c, scratch()])[0] == INVALID
    del held


def xla_words(xla, code):
    function = xla.library.lab_error_string
    function.restype = ctypes.c_char_p
    return function(code).decode()


def test_frames_that_cannot_be(xla):
    """Each operand's count, type, rank and extents; attributes by name and type."""
    a, b, c, bias, w = made(5, 9), made(9, 7), made(5, 7), made(7), scratch()
    count, attribute, kind, rank, shape, batch = (
        (INVALID, f"lab: {words}") for words in (
            "takes A, B and a bias or none, and gives C and a workspace", "needs int64 attributes transpose_a, transpose_b and epilogue",
            "operands and C must be float32, and the workspace bytes", "A, B and C must be matrices, or batches of them", "shapes do not fit",
            "batches do not fit"))
    for operands, results in (([a], [c, w]), ([a, b, bias, bias], [c, w]), ([a, b], [c]), ([a, b], [c, w, w])):
        assert xla.call(operands, results) == count
    names = ("transpose_a", "transpose_b", "epilogue")
    for at in range(3):
        for other in ("transpose", "epilogue_", "transpose_c"):
            assert xla.call([a, b], [c, w], names=(*names[:at], other, *names[at + 1:])) == attribute
    assert xla.call([a, b], [c, w], kind=4) == xla.call([a, b], [c, w], form=2) == attribute
    for at, of in ((0, 4), (1, 4), (2, 4), (3, 4), (4, 11)):
        types = [11, 11, 11, 11, 6]
        types[at] = of
        assert xla.call([a, b, bias], [c, w], types=types) == kind
    for operands, results in (([a, b], [made(7), w]), ([made(1, 5, 9), b], [c, w]), ([a, made(1, 9, 7)], [c, w]),
                              ([made(1, 1, 5, 9), made(1, 1, 9, 7)], [made(1, 1, 5, 7), w]),
                              ([a, b], [c, w.reshape(2, -1)])):
        assert xla.call(operands, results) == rank
    for operands, results in (([made(5, 8), b], [c, w]), ([a, b], [made(6, 7), w]), ([a, b], [made(5, 6), w]), ([a, b, made(6)], [c, w]),
                              ([a, b, made(1, 7)], [c, w])):
        assert xla.call(operands, results) == shape
    for turned in ((1, 0, 0), (0, 1, 0)):
        assert xla.call([a, b], [c, w], turned) == shape
    for x, y in ((2, 3), (3, 2), (2, 1), (1, 2)):
        assert xla.call([made(x, 5, 9), made(y, 9, 7)], [made(3, 5, 7), w]) == batch
