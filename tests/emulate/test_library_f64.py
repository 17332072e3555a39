"""FP64 through a library's C functions: the same bits as the reference split, wherever matrices lie and wherever scalars are."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from complex_calls import PAD, Padded
from standin import GCC, Library
from test_library import BAD_A, COLUMN, NOT_SERVED, OK, ROW, kernel, of_plan

from gemmgen.catalog.element import F32, F64
from gemmgen.library.kernel import FINISH, finish_symbol
from gemmgen.library.structures import Choice, Packed, Problem, Status, Target, sized
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.split import joined, split
from ways import plan_of

pytestmark = pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")
SCHEME, TILE = "residues12", {"block": [64, 32, 64], "warp": [32, 32, 64]}
BAD_EPILOGUE, BAD_KIND = -14, -27
ON_DEVICE, POINTERS = 1, 4


def f64(layout: str, **more):
    return of_plan(f"f64_{layout}", plan_of(SCHEME, layout=layout, promote=0, tile=TILE, stages=2, **more))


def upper_triangle(kind: str, layout: str):
    problem = {"type": "f64", "kind": kind, "uplo": "upper", "layout": layout}
    return of_plan(f"f64_{kind}", solve(loads({"problem": problem, "split": {"scheme": SCHEME}, "target": {"gpu": "a100"},
                                            "tile": {"block": [32, 32, 64], "warp": [16, 16, 64]}, "pipeline": {"stages": 2}})))


def strided():
    plan = solve(loads({"problem": {"type": "f64", "kind": "strided", "matrices": 8}, "split": {"scheme": SCHEME}, "target": {"gpu": "a100"},
                        "tile": {"block": [32, 32, 64], "warp": [16, 32, 64]}, "pipeline": {"stages": 2}}))
    return of_plan("f64_strided", replace(plan, batch=replace(plan.batch, pointers=True)))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Library:
    """Kernels of FP64 by two layouts, beside one of FP32."""
    return Library(tmp_path_factory.mktemp("f64"), [kernel("nn"), f64("nn"), f64("tn"), upper_triangle("syrk", "nt"), strided()], archs=["sm_80"], arch="sm_80")


def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A [M, K] B [K, N], each sum rounded once, as the kernels have it."""
    scheme = plan_of(SCHEME, promote=0).scheme
    return joined(split(a, scheme), split(np.ascontiguousarray(b.T), scheme), scheme)


class Call(Padded):
    """A product of [count, m, k] and [count, k, n] FP64, in padded memory whose other bytes are NaN."""

    def __init__(self, library: Library, a, b, c, *, order=ROW, transpose=(0, 0), alpha=1.0, beta=0.0, flags=0, **more):
        self.library, self.a, self.b, self.before, self.alpha, self.beta, self.order = library, a, b, c, alpha, beta, order
        fields = {}
        for x, array, turned in (("a", a, transpose[0]), ("b", b, transpose[1]), ("c", c, 0)):
            stored = array.transpose(0, 2, 1) if turned != (order == COLUMN) else array
            padded = np.full((*stored.shape[:2], stored.shape[2] + PAD), np.nan)
            padded[:, :, : stored.shape[2]] = stored
            held = [library.put(one, misalign=8) for one in padded] if flags & POINTERS else library.put(padded, misalign=8)
            setattr(self, f"held_{x}", held)
            at = library.point_to(held) if flags & POINTERS else held
            fields |= {x: at.ctypes.data, f"ld{x}": padded.shape[2], f"stride_{x}": padded[0].size}
        self.scalars = library.put(np.array([alpha, beta]))
        count, m, k = a.shape
        self.problem = sized(Problem, order=order, transpose_a=transpose[0], transpose_b=transpose[1], m=m, n=b.shape[2], k=k, batch=count, flags=flags,
                             element=F64.number, alpha=self.scalars.ctypes.data, beta=self.scalars[1:].ctypes.data, **(fields | more))

    def check(self, bias: np.ndarray | float = 0.0, roundings: int = 1) -> None:
        """To the last bit where C is one product times a power of two, else to so many roundings."""
        product = np.stack([reference(*both) for both in zip(self.a, self.b)])
        want = self.alpha * product.astype(np.longdouble) + (self.beta * self.before.astype(np.longdouble) if self.beta else 0) + bias
        found = self.run()
        off = np.abs(found - want)
        assert (off <= roundings * np.spacing(np.maximum(np.abs(self.alpha * product), np.abs(want.astype(np.float64))))).all(), off.max()
        if self.beta == 0 and self.alpha == 1.0 and np.ndim(bias) == 0:
            assert (found == product).all()


def drawn(m=19, n=20, k=37, count=1, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, (count, *shape)) for shape in ((m, k), (k, n), (m, n))]


def test_every_order_and_operation_gives_the_same_bits(made):
    """A column-major product is the row-major one of the same memory: what no kernel reads as it is stored is not served."""
    served = 0
    for order in (ROW, COLUMN):
        for transpose in ((0, 0), (1, 0), (0, 1)):
            one = Call(made, *drawn(), order=order, transpose=transpose)
            code = made("select", ctypes.byref(one.problem), None, ctypes.byref(sized(Choice)))
            reads = transpose if order == ROW else transpose[::-1]
            assert code == (OK if reads in ((0, 0), (1, 0)) else NOT_SERVED)
            if code == OK:
                served += 1
                one.check()
    assert served == 4


def test_scalars_are_fp64s_on_the_host_and_on_the_device(made):
    """A third is none of FP32's numbers."""
    third, launched = 1 / 3, len(made.launched)
    Call(made, *drawn(), alpha=third, beta=-third).check(roundings=2)
    assert FINISH not in {symbol for symbol, _ in made.launched[launched:]} and finish_symbol(F64) not in {symbol for symbol, _ in made.launched[launched:]}
    Call(made, *drawn(), alpha=third, beta=-third, flags=ON_DEVICE).check(roundings=3)
    assert {symbol for symbol, _ in made.launched[launched:]} >= {finish_symbol(F64)}
    bias = made.put(np.random.default_rng(2).uniform(-1, 1, 20))
    Call(made, *drawn(), bias=bias.ctypes.data).check(bias.copy(), roundings=2)


@pytest.mark.parametrize("transpose", [(0, 0), (1, 0)], ids=["in one launch", "one by one"])
def test_a_batch_by_strides_and_by_pointers(made, transpose):
    """No kernel for batches reads an A that is transposed."""
    a, b, c = drawn(count=2)
    a[1] *= 2.0**600
    Call(made, a, b, c, transpose=transpose, beta=0.5).check(roundings=2)
    Call(made, a, b, c, transpose=transpose, alpha=1 / 3, beta=0.5, flags=POINTERS).check(roundings=3)


def test_a_batch_is_one_launch_of_each_kernel(made):
    """Ragged products; A of the second of other magnitudes; one B for all; told by pointers; gaps of a matrix; no k. The workspace is told before."""
    a, b, c = drawn(m=33, n=5, k=65, count=3)
    a[1] *= 2.0**600
    alone, choice = Call(made, a, b, c), sized(Choice)
    before = len(made.launched)
    alone.check()
    [own] = [one for one in made.kernels if one.label == "f64_strided"]
    assert [symbol for symbol, _ in made.launched[before:]] == [launch.symbol for launch in own.built.source.launches]
    assert made("select", ctypes.byref(alone.problem), None, ctypes.byref(choice)) == OK
    assert choice.workspace_bytes == own.built.source.interface.workspace(33, 5, 65, 3).bytes
    Call(made, a, np.stack([b[0]] * 3), c, beta=0.5, stride_b=0).check(roundings=2)
    Call(made, a[1:], b[1:], c[1:], flags=POINTERS).check()
    apart = Call(made, a[[0, 2, 1]], b, c)
    apart.problem.batch = 2
    for stride in ("stride_a", "stride_b", "stride_c"):
        setattr(apart.problem, stride, 2 * getattr(apart.problem, stride))
    found = apart.run()
    assert (found[0] == reference(a[0], b[0])).all() and (found[1] == c[1]).all() and (found[2] == reference(a[1], b[2])).all()
    assert (Call(made, np.zeros((2, 4, 0)), np.zeros((2, 0, 5)), np.ones((2, 4, 5)), beta=3.0).run() == 3).all()


def test_alpha_and_beta_of_zero_read_nothing_and_k_of_zero_is_no_product(made):
    a, b, c = drawn()
    a[0, 3, 4], c[0, 2, 2] = np.nan, 7.0
    assert (Call(made, a, b, c, alpha=0.0, beta=2.0).run() == 2 * c).all()
    c[0, 5, 5] = np.nan
    assert (Call(made, drawn()[0], b, c).run() == reference(drawn()[0][0], b[0])).all(), "beta 0: C is not read"
    assert (Call(made, np.zeros((1, 4, 0)), np.zeros((1, 0, 5)), np.ones((1, 4, 5)), beta=3.0).run() == 3).all()


def test_inf_and_nan_are_fp64s(made):
    a, b, c = drawn()
    a[0, 3, 4], b[0, 7, 6], a[0, 9] = np.inf, np.nan, a[0, 9] * 2.0**1020
    b[0, :, 2] *= 2.0**10
    one = Call(made, a, b, c)
    with np.errstate(invalid="ignore", over="ignore"):
        want = F64.rounded(F64.exact(a[0], b[0]))
    found = one.run()[0]
    assert np.isnan(found[:, 6]).all() and np.isinf(want).sum() > 15
    assert (np.isfinite(found) == np.isfinite(want)).all()
    # Beyond FP64's range the order of sums decides between Inf and NaN.
    ordered = np.isfinite(want) | (np.arange(19) != 9)[:, None] & (np.arange(20) != 2)
    assert np.array_equal(np.sign(found[ordered]), np.sign(want[ordered]), equal_nan=True)


def test_types_do_not_take_one_anothers_kernels(made):
    one, choice = Call(made, *drawn()), sized(Choice)
    assert made("select", ctypes.byref(one.problem), None, ctypes.byref(choice)) == OK
    assert made.kernels[choice.kernel].built.plan.type == F64 and not choice.is_fallback
    one.problem.element = F32.number
    assert made("select", ctypes.byref(one.problem), None, ctypes.byref(choice)) == OK and made.kernels[choice.kernel].built.plan.type == F32
    one.problem.kernel = 2  # of FP64, to be asked for by FP32
    assert made("select", ctypes.byref(one.problem), None, ctypes.byref(choice)) == -16
    for element, epilogue, code in ((-1, 0, BAD_KIND), (9, 0, BAD_KIND), (F64.number, 1, BAD_EPILOGUE)):
        one.problem.element, one.problem.epilogue, one.problem.kernel = element, epilogue, 0
        assert made("select", ctypes.byref(one.problem), None, ctypes.byref(choice)) == code
    one.problem.element, one.problem.epilogue, one.problem.a = F64.number, 0, None
    assert made("gemm", ctypes.byref(one.problem), None, ctypes.c_size_t(0), None) == BAD_A


def test_a_product_is_compared_with_native_fp64(made):
    """M25 by hand, for an A100: 6 us, 40 ns for each of 512 k, 80 % of 19.5 TFLOP/s, and what C takes of device memory, in and out, as there is a beta."""
    one, choice = Call(made, *drawn()), sized(Choice)
    for x, size in zip("mnk", (8192, 4096, 2048)):
        setattr(one.problem, x, size)
    one.problem.lda, one.problem.ldb, one.problem.ldc, one.problem.batch = 2048, 4096, 4096, 1
    target, without = sized(Target, arch=b"sm_80", units=108), sized(Choice)
    assert made("select", ctypes.byref(one.problem), ctypes.byref(target), ctypes.byref(choice)) == OK
    one.problem.beta = None
    assert made("select", ctypes.byref(one.problem), ctypes.byref(target), ctypes.byref(without)) == OK
    gpu = made.kernels[1].built.plan.gpu
    memory = 8 * (8192 * 4096) / (gpu.rates.dram_gb_per_s * 1e9 * gpu.measured.dram_efficiency.value)
    assert choice.sgemm_seconds == pytest.approx(26.48e-6 + 2 * 8192 * 4096 * 2048 / (0.8 * 19.5e12) + 2 * memory, rel=3e-3)
    reading = choice.sgemm_seconds - without.sgemm_seconds
    assert 0 < reading == pytest.approx(choice.seconds - without.seconds), "its kernel reads C once, too"


def test_what_ends_c_moves_twice_the_bytes_of_fp32(made):
    """Predicted seconds with alpha on the device less those without, at two sizes of C, of which none is read."""
    def seconds(element: int, extent: int, flags: int) -> float:
        one, choice = Call(made, *drawn(), flags=flags), sized(Choice)
        one.problem.element, one.problem.batch, one.problem.beta = element, 1, None
        for field in ("m", "n", "k", "lda", "ldb", "ldc"):
            setattr(one.problem, field, extent)
        assert made("select", ctypes.byref(one.problem), ctypes.byref(sized(Target, arch=b"sm_80", units=108)), ctypes.byref(choice)) == OK
        assert made.kernels[choice.kernel].built.plan.type.number == element
        return choice.seconds

    of_fp32, of_fp64 = ([seconds(element, extent, ON_DEVICE) - seconds(element, extent, 0) for extent in (2048, 4096)] for element in (F32.number, F64.number))
    assert 0 < of_fp32[0] < of_fp32[1] and of_fp64[1] - of_fp64[0] == pytest.approx(2 * (of_fp32[1] - of_fp32[0]), rel=1e-4)


def test_blas_names_the_same_product(made):
    """DGEMM, column major."""
    a, b, c = drawn()
    x, y, z = (made.put(np.ascontiguousarray(one[0].T)) for one in (a, b, c))
    scalars = made.put(np.array([1.0, 0.0]))
    m, k, n = 19, 37, 20
    pointer = lambda held: ctypes.c_void_p(held.ctypes.data)
    code = made("dgemm", ctypes.c_char(b"n"), ctypes.c_char(b"N"), m, n, k, pointer(scalars), pointer(x), m, pointer(y), k, pointer(scalars[1:]), pointer(z), m, None)
    assert code == OK and (np.asarray(z).T == reference(a[0], b[0])).all()
    code = made("dgemm", ctypes.c_char(b"n"), ctypes.c_char(b"N"), m, n, k, pointer(scalars), pointer(x), m - 1, pointer(y), k, pointer(scalars[1:]), pointer(z), m, None)
    assert code == -8


def test_blas_names_a_batch_by_strides(made):
    """DGEMM of two products, column major; strides count elements, and a batch below 0 and matrices of C that overlap are refused."""
    a, b, c = drawn(m=3, n=4, k=5, count=2)
    x, y, z = (made.put(np.ascontiguousarray(one.transpose(0, 2, 1))) for one in (a, b, c))
    scalars = made.put(np.array([1.0, 0.0]))
    pointer = lambda held: ctypes.c_void_p(held.ctypes.data)
    size = ctypes.c_longlong

    def call(batch: int, stride_c: int = 12, letter: bytes = b"N") -> int:
        return made("dgemm_strided_batched", ctypes.c_char(b"n"), ctypes.c_char(letter), 3, 4, 5, pointer(scalars), pointer(x), 3, size(15), pointer(y), 5,
                    size(20), pointer(scalars[1:]), pointer(z), 3, size(stride_c), batch, None)

    assert [call(-1), call(2, 11), call(2, letter=b"x"), call(0)] == [-17, -16, -2, OK]
    assert (np.asarray(z) == c.transpose(0, 2, 1)).all()
    assert call(2) == OK and all((z[at].T == reference(a[at], b[at])).all() for at in range(2))


def test_a_triangle_is_of_fp64_too(made):
    """DSYRK, column major: the lower triangle of C, whose upper one stays, is row major the upper one."""
    a, scalars = drawn()[0], made.put(np.array([1 / 3, 2.0]))
    x, z = made.put(np.ascontiguousarray(a[0].T)), made.put(np.full((19, 19), 5.0))
    pointer = lambda held: ctypes.c_void_p(held.ctypes.data)
    code = made("dsyrk", ctypes.c_char(b"L"), ctypes.c_char(b"N"), 19, 37, pointer(scalars), pointer(x), 19, pointer(scalars[1:]), pointer(z), 19, None)
    assert code == NOT_SERVED, "row major that is another layout"
    x = made.put(a[0].copy())
    code = made("dsyrk", ctypes.c_char(b"L"), ctypes.c_char(b"T"), 19, 37, pointer(scalars), pointer(x), 37, pointer(scalars[1:]), pointer(z), 19, None)
    want, c = reference(a[0], np.ascontiguousarray(a[0].T)) / 3 + 10, np.asarray(z).T
    assert code == OK and np.allclose(np.tril(c), np.tril(want), rtol=1e-15) and (c[np.triu_indices(19, 1)] == 5).all()


def test_arguments_of_dgemmt_are_those_of_fp64(made):
    """Nothing here serves it: what is refused before says how it reads its arguments. An alpha of 1, read as FP32, is 0, and A and B may be NULL."""
    one, held = made.put(np.array([1.0, 0.0])), made.put(np.zeros((37, 37)))
    at = lambda x: ctypes.c_void_p(x if x is None else x.ctypes.data)

    def code(transa=b"N", transb=b"N", lda=37, ldb=37, a=held, b=held, alpha=one):
        return made("dgemmt", *(ctypes.c_char(x) for x in (b"L", transa, transb)), 19, 37, at(alpha), at(a), lda, at(b), ldb, at(one[1:]), at(held), 19, None)

    assert code() == code(b"N", b"T", 19, 19) == code(b"T", b"N", 37, 37) == NOT_SERVED
    assert code(a=None) == -7 and code(b=None) == -9 and code(a=None, b=None, alpha=one[1:]) == NOT_SERVED
    assert code(lda=18) == code(b"T", b"N", 36, 37) == -8 and code(ldb=36) == code(b"N", b"T", 19, 18) == -10
    assert code(b"?") == -2 and code(transb=b"?") == -3


@pytest.mark.long
def test_dgemmt_is_the_lower_triangle_of_a_column_major_product(tmp_path):
    """C's other triangle stays; A, B and C have rows of their own lengths."""
    made = Library(tmp_path, [upper_triangle("gemmt", "nn")], archs=["sm_80"], arch="sm_80")
    a, b = (one[0] for one in drawn(19, 19, 37)[:2])
    before, stored = np.full((19, 19), 5.0), []
    for x, ld in ((a, 23), (b, 41), (before, 20)):
        memory = np.full((x.shape[1], ld), np.nan)
        memory[:, : x.shape[0]] = x.T
        stored.append(made.put(memory))
    scalars = made.put(np.array([1 / 3, 2.0]))
    x, y, z, alpha, beta = (ctypes.c_void_p(one.ctypes.data) for one in (*stored, scalars, scalars[1:]))
    letters = [ctypes.c_char(one) for one in (b"L", b"N", b"N")]
    assert made("dgemmt", *letters, 19, 37, alpha, x, 23, y, 41, beta, z, 20, None) == OK
    want, c = reference(a, b) / 3 + 10, np.asarray(stored[2]).T
    assert np.allclose(np.tril(c[:19]), np.tril(want), rtol=1e-15, atol=1e-14) and (c[:19][np.triu_indices(19, 1)] == 5).all() and np.isnan(c[19]).all()


def test_a_packed_operand_serves_other_products(made):
    """B's residues and its columns' powers of two, once."""
    a, b, c = drawn()
    one, needed, packed = Call(made, a, b, c), ctypes.c_size_t(), sized(Packed)
    assert made("pack_bytes", ctypes.byref(one.problem), ctypes.c_char(b"b"), None, ctypes.byref(needed)) == OK
    memory = made.empty(needed.value)
    assert made("pack", ctypes.byref(one.problem), ctypes.c_char(b"b"), ctypes.c_void_p(memory.ctypes.data), needed, None, ctypes.byref(packed)) == OK
    a, _, c = drawn(m=9, seed=4)
    other = Call(made, a, b, c)
    assert made("gemm_packed", ctypes.byref(other.problem), ctypes.byref(packed), None, ctypes.c_size_t(0), None) == OK
    assert (np.asarray(other.held_c)[0, :, :-PAD] == reference(a[0], b[0])).all()
    status = Status()
    assert made("read_status", ctypes.c_void_p(memory.ctypes.data), None, ctypes.byref(status)) == OK and status.b_nonfinite == 0
