"""Complex numbers through a library's C functions: what its kernels are launched with, by kernels in NumPy that do what their parameters say."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import cache
from itertools import product as product_of
from types import SimpleNamespace

import numpy as np
import pytest
from complex_calls import COLUMN, OK, ON_DEVICE, POINTERS, ROW, Call
from standin import GCC, LARGEST_EXTENT, Library, finish_kinds
from ways import TINY, plan_of

from gemmgen.abi import interface
from gemmgen.build import Binary, Built
from gemmgen.catalog.element import C64, C128, ELEMENTS, F32, F64
from gemmgen.export import prose
from gemmgen.kinds.kind import COMPLEX_LAYOUTS
from gemmgen.library import tables
from gemmgen.library.dispatch import Estimate
from gemmgen.library.kernel import Kernel, finish_source, finish_symbol
from gemmgen.library.structures import Choice, Problem, Target, sized
from gemmgen.render import Source

pytestmark = pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")
BAD_ORDER, BAD_M, BAD_N, BAD_K, BAD_A, BAD_EPILOGUE, BAD_FLAGS, NOT_SERVED, BAD_KIND = -2, -3, -4, -5, -11, -14, -15, -21, -27
NO_STRIDE = -(2**63)
KINDS = {"pointer": ctypes.c_uint64, "long long": ctypes.c_longlong, "int": ctypes.c_int, "float": ctypes.c_float, "double": ctypes.c_double}
OF_SCHEME = {"c64": dict(tile=TINY), "c128": dict(scheme="residues14", promote=0, tile={"block": [64, 64, 64], "warp": [32, 32, 64]}),
             "f64": dict(scheme="residues14", promote=0, tile={"block": [64, 64, 64], "warp": [32, 32, 64]}), "f32": dict(tile=TINY)}


def kernel(element: str, layout: str, **problem: str) -> Kernel:
    """One without a text: of the launches that it has, the last computes C."""
    plan = plan_of(type=element, layout=layout, problem=problem, **OF_SCHEME[element])
    known, name = interface(plan), "_".join((element, *problem.values(), layout))
    known = replace(known, launches=tuple(replace(one, symbol=f"{name}_{at}") for at, one in enumerate(known.launches)))
    source = Source(name=name, text="", suffix=".cu", interface=known, arch=plan.arch, allow_spills=True)
    binary = Binary(arch=plan.arch, code=b"", assembly="", compiler="", log="", key="", source_name="", from_cache=False, seconds=0.0,
                    kernels={launch.symbol: SimpleNamespace(static_shared_bytes=0) for launch in known.launches})
    estimate = Estimate(tile=plan.block[:2], slices=1, sms=108, launch=5e-6, wave=1e-6, step=1e-8, operand=1e-12, output=2e-12)
    return Kernel(name, Built(plan, source, binary), estimate, "for a test")


@cache
def all_kernels() -> list[Kernel]:
    level3 = [
        *(kernel("c64", layout, kind=kind, uplo=uplo) for kind, letter in (("herk", "c"), ("her2k", "c"), ("syrk", "t"), ("syr2k", "t"))
          for uplo in ("lower", "upper") for layout in (f"n{letter}", f"{letter}n")),
        *(kernel("c64", "nn", kind=kind, uplo=uplo, side=side) for kind in ("hemm", "symm") for uplo in ("lower", "upper") for side in ("left", "right")),
        *(kernel("c64", layout, kind="trmm", side=side, uplo=uplo) for uplo in ("lower", "upper")
          for side, layouts in (("left", ("nn", "tn", "cn")), ("right", ("nn", "nt", "nc"))) for layout in layouts),
        *(kernel("c64", layout, kind="gemmt", uplo="upper") for layout in ("tc", "nn")), kernel("f64", "nt", kind="syr2k", uplo="upper"),
    ]
    return [kernel("f32", "nn"), *(kernel("c64", layout) for layout in COMPLEX_LAYOUTS), kernel("c128", "nn"), kernel("c128", "ct"), *level3]


def array(address: int, dtype, *shape: int) -> np.ndarray:
    """Memory as a matrix of rows without gaps."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), dtype).reshape(shape)


class Made(Library):
    """A library whose launches do in NumPy what the kernels would do with those parameters."""

    def _on_launch(self, code, symbol, blocks, threads, shared_bytes, overlaps, stream, parameters) -> int:
        try:
            symbol = symbol.decode()
            element = next((one for one in ELEMENTS.values() if symbol == finish_symbol(one)), None)
            self.launched.append((symbol, blocks))
            if element is not None:
                return self._finish(element, [KINDS[kind].from_address(parameters[at]).value for at, kind in enumerate(finish_kinds(element))])
            label, _, number = symbol.rpartition("_")
            of = next(one for one in self.kernels if one.label == label)
            launches = of.built.source.launches
            if int(number) == len(launches) - 1:
                names = launches[-1].parameters
                told = {one.argument: KINDS[one.kind].from_address(parameters[at]).value for at, one in enumerate(names) if one.argument}
                told = {"n": told["m"], **told}  # of a real triangle
                extents = of.built.source.interface.extents(told["m"], told["n"], told["k"], 1)
                assert blocks == min(launches[-1].blocks(extents), launches[-1].most_blocks or blocks), "a grid of the real product"
                self._multiply(of, SimpleNamespace(**told))
            return 0
        except BaseException as error:  # which C would swallow
            self.errors.append(error)
            return 700

    @staticmethod
    def _multiply(of: Kernel, at: SimpleNamespace) -> None:
        """The complex product of matrices that are told as real ones, of which the kind computes elements, or reads them."""
        element, kind, (first, second) = of.element, of.built.plan.kind, of.built.plan.kind.layout_of(of.built.plan.layout)
        reals, at = element.reals, SimpleNamespace(**{"ldb": at.lda, "b": at.a, "alpha_i": 0.0, "beta_i": 0.0, **vars(at)})
        assert not any(extent % reals for extent in (at.n, at.k, at.lda, at.ldb, at.ldc)), "whole pairs"
        n, k = at.n // reals, at.k // reals

        def matrix(address, rows, columns, ld, letter):
            if letter != "n":
                rows, columns = columns, rows
            held = np.stack([array(address + row * ld * element.part.bytes, element.dtype, columns) for row in range(rows)]) if rows * columns else np.zeros(
                (rows, columns), element.dtype)
            return held if letter == "n" else held.T if letter == "t" else held.conj().T

        factor, other = complex(at.alpha, at.alpha_i), complex(at.beta, at.beta_i)
        a, b = matrix(at.a, at.m, k, at.lda, first), matrix(at.b, k, n, at.ldb, second)
        a, b = kind.multiplied(a, b) if k and getattr(kind, "operand", None) else (a, b)
        computed, sums = kind.computed(at.m, n), factor * (a @ b) if factor else np.zeros((at.m, n))
        for row in range(at.m):
            c, own = array(at.c + row * at.ldc * element.part.bytes, element.dtype, n), computed[row]
            made = sums[row] + (other * c if other else 0)
            if kind.hermitian:
                made[row] = factor.real * (a @ b)[row, row].real - factor.imag * (a @ b)[row, row].imag + (other.real * c[row].real if other else 0)
            c[own] = made[own] if reals > 1 else made[own].real

    @staticmethod
    def _finish(element, told) -> int:
        """The kernel of epilogues, by its parameters in elements."""
        c, ldc, stride_c, t, ldt, stride_t, alpha, beta, beta_value, bias, m, n, triangle, *last = told
        one = complex(array(alpha, element.dtype, 1)[0]) if alpha else 1
        other = complex(array(beta, element.dtype, 1)[0]) if beta else complex(beta_value, last[0] if element.reals > 1 else 0)
        def row_of(base, stride, ld, product, row):
            start = array(base + 8 * product, np.uint64, 1)[0] if stride == NO_STRIDE else base + product * stride * element.bytes
            return array(int(start) + row * ld * element.bytes, element.dtype, n)

        for product in range(1):  # kernels of complex elements take one of a batch at a time
            for row in range(m):
                to, x = row_of(c, stride_c, ldc, product, row), row_of(t, stride_t, ldt, product, row)
                part = slice(None) if not triangle else slice(row, None) if triangle == 2 else slice(row + 1)
                to[part] = ((one * x if one else 0) + (other * to if other else 0) + (array(bias, element.dtype, n) if bias else 0))[part]
        return 0


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Made:
    return Made(tmp_path_factory.mktemp("complex"), all_kernels(), archs=["sm_80"], arch="sm_80")


def choice_of(library, of: Problem, arch: str = "sm_80") -> Choice | int:
    choice = sized(Choice)
    code = library("select", ctypes.byref(of), ctypes.byref(sized(Target, arch=arch.encode(), units=108)), ctypes.byref(choice))
    return code or choice


@pytest.mark.parametrize("order", [ROW, COLUMN], ids=["row", "column"])
@pytest.mark.parametrize("letters", COMPLEX_LAYOUTS)
def test_every_operation_in_both_orders_with_complex_factors(made, letters, order):
    before = len(made.launched)
    Call(made, letters=letters, order=order, alpha=2 - 3j, beta=1j).check()
    label = f"c64_{letters if order == ROW else letters[::-1]}"
    assert {symbol.rpartition("_")[0] for symbol, _ in made.launched[before:]} == {label}, "alpha and beta of the host need no further kernel"


def test_fp64s_complex_numbers_have_kernels_of_their_own(made):
    for letters, order in (("nn", ROW), ("ct", ROW), ("tc", COLUMN)):
        Call(made, letters=letters, order=order, alpha=1 / 3 + 0j, beta=-0.5j, element=C128, k=0).check()
        Call(made, letters=letters, order=order, alpha=2 - 1j, beta=3 + 1j, element=C128).check()
    assert choice_of(made, Call(made, letters="nt", element=C128).problem) == NOT_SERVED, "and no fallback"
    problems = {element.name: Call(made, element=element).problem for element in (C64, C128)}
    problems["f32"] = Problem.from_buffer_copy(problems["c64"])
    problems["f32"].element = F32.number
    taken = {name: made.kernels[choice_of(made, problem).kernel].label for name, problem in problems.items()}
    assert taken == {"f32": "f32_nn", "c64": "c64_nn", "c128": "c128_nn"}


@pytest.mark.parametrize("element", [C64, C128], ids=["c64", "c128"])
def test_scalars_on_the_device_bias_and_batches(made, element):
    """The second of a batch, whose matrices lie a stride apart or are told by pointers, which no kernel of complex numbers takes."""
    for flags in (0, ON_DEVICE, POINTERS, POINTERS | ON_DEVICE):
        Call(made, count=2, alpha=1 - 2j, beta=2 + 1j, element=element, flags=flags).check()
        Call(made, count=2, element=element, flags=flags, order=COLUMN).check()
    bias = np.arange(3) - 1j * np.arange(3)[::-1]
    Call(made, beta=1j, element=element, bias=made.put(bias.astype(element.dtype)).ctypes.data).check(bias)


def test_a_batch_that_shares_its_b_is_one_product_of_more_rows(made):
    one = Call(made, count=3)
    one.problem.stride_b, one.b = 0, one.b[:1]
    before = len(made.launched)
    one.check()
    assert sum(symbol == "c64_nn_1" for symbol, _ in made.launched[before:]) == 1


@pytest.mark.parametrize("flags", [0, ON_DEVICE], ids=["host", "device"])
def test_what_blas_does_not_read(made, flags):
    """Nothing of C where beta is 0, nothing of A and B where alpha is 0 or k is: a factor is 0 only in both parts."""
    one = Call(made, flags=flags)
    np.asarray(one.held_c)[:] = np.nan
    one.check()
    for alpha in (1j, 0j):
        one = Call(made, alpha=alpha, beta=2j, flags=flags)
        if not alpha:
            np.asarray(one.held_a)[:] = np.nan
            one.a[:] = 0
        one.check()
    Call(made, k=0, beta=1 - 1j, flags=flags).check()
    one = Call(made, alpha=1j)
    one.problem.a = None
    assert made("gemm", ctypes.byref(one.problem), None, ctypes.c_size_t(0), None) == BAD_A, "an alpha without a real part reads A"


def test_what_is_refused(made):
    choice, one = sized(Choice), Call(made)

    def code(**fields):
        changed = Problem.from_buffer_copy(one.problem)
        for name, value in fields.items():
            setattr(changed, name, value)
        return made("select", ctypes.byref(changed), ctypes.byref(sized(Target, arch=b"sm_80", units=108)), ctypes.byref(choice))

    largest, far = LARGEST_EXTENT // 2, {"lda": 2**31, "ldb": 2**31, "ldc": 2**31}
    assert code(transpose_a=3) == code(transpose_b=-1) == code(transpose_a=2, element=F32.number) == code(transpose_b=2, kind=1, m=3) == BAD_ORDER
    assert code(m=largest + 1, **far) == BAD_M and code(n=largest + 1, **far) == BAD_N and code(k=largest + 1, **far) == BAD_K
    assert code(m=largest, **far) == OK == code(m=largest + 1, element=F32.number, **far)
    assert code(epilogue=1) == BAD_EPILOGUE and code(transpose_a=2, lda=4) == -6 and code(transpose_a=2, lda=5) == OK and code(transpose_b=2, ldb=6) == -7
    assert [code(order=COLUMN, transpose_a=2, lda=lda, ldb=7) for lda in (6, 7)] == [-6, OK]
    needed = ctypes.c_size_t()
    assert made("pack_bytes", ctypes.byref(one.problem), ctypes.c_char(b"b"), None, ctypes.byref(needed)) == NOT_SERVED, "no kernel packs"


@pytest.mark.parametrize(("element", "of_vendor"), [(C64, tables.sgemm_estimate), (C128, tables.native_estimate)], ids=["c64", "c128"])
def test_a_product_is_predicted_beside_the_vendors_of_eight_operations(made, element, of_vendor):
    """Both by the real product, m x 2n x 2k, whose rate the GPU's row has; what ends C moves whole elements."""
    m, n, k = 1000, 300, 700
    one = Call(made, element=element)
    for name, value in dict(m=m, n=n, k=k, lda=k, ldb=n, ldc=n, batch=1, beta=None).items():  # C is not read
        setattr(one.problem, name, value)
    choice = choice_of(made, one.problem)
    taken, gpu = made.kernels[choice.kernel], made.kernels[0].built.plan.gpu
    assert choice.seconds == pytest.approx(float(taken.estimate.seconds(m, 2 * n, 2 * k)))
    first = 256 * 15e-9 if element is C64 else 512 * 40e-9
    assert choice.sgemm_seconds == pytest.approx(float(of_vendor(gpu).seconds(m, 2 * n, 2 * k)) + first)
    if element is C64:
        rate = 2 * m * (2 * n) * (2 * k) / choice.sgemm_seconds
        assert rate == pytest.approx(8 * m * n * k / choice.sgemm_seconds) and rate < 19.5e12
    found = prose.coefficients(taken.built.plan, 2 * 1024)
    assert choice.error == prose.rounded_up(tables.SAFETY * found.random) and choice.worst_case == prose.rounded_up(found.scaled)
    assert choice.workspace_bytes == taken.built.source.interface.workspace(m, 2 * n, 2 * k).bytes
    one.problem.flags = ON_DEVICE
    ends = choice_of(made, one.problem).seconds - choice.seconds
    launch, output = (getattr(tables.sgemm_estimate(gpu), name) for name in ("launch", "output"))
    assert ends == pytest.approx(launch + 3 * m * n * output * element.bytes / 4)


def test_blas_names_the_same_product(made):
    """CGEMM and ZGEMM, column major; which argument is at fault."""
    for name, element, letters in (("cgemm", C64, (b"n", b"C")), ("cgemm", C64, (b"T", b"c")), ("cgemm", C64, (b"c", b"n")), ("zgemm", C128, (b"t", b"C"))):
        one = Call(made, letters=b"".join(letters).decode().lower(), order=COLUMN, alpha=1 - 2j, beta=2 + 1j, element=element)
        p = one.problem

        def call(lda=p.lda, transa=letters[0]):
            at = ctypes.c_void_p
            return made(name, ctypes.c_char(transa), ctypes.c_char(letters[1]), 5, 3, 7, at(p.alpha), at(p.a), ctypes.c_int(lda), at(p.b),
                        ctypes.c_int(p.ldb), at(p.beta), at(p.c), ctypes.c_int(p.ldc), None)

        assert call(lda=1) == -8 and call(transa=b"?") == -1 and call() == OK
        c = np.asarray(one.held_c)[:, :, :5].transpose(0, 2, 1)
        assert (c == one.alpha * (one.a @ one.b) + one.beta * one.before).all()


OPERATIONS = {"N": lambda x: x, "T": np.transpose, "C": lambda x: x.conj().T}


def reference(routine: str, letters: str, alpha, beta, a, b, c) -> np.ndarray:
    """C of a routine of BLAS by its letters, as its page has them: of what is not computed what C held."""
    name, m = routine[1:], len(c)
    if name in ("hemm", "symm", "trmm"):
        side, uplo, *more = letters
        kept = np.tri(len(a), k=-1, dtype=bool) if uplo == "L" else np.tri(len(a), k=-1, dtype=bool).T
        half, diagonal = np.where(kept, a, 0), np.diag(a.diagonal())
        if name == "trmm":
            whole = OPERATIONS[more[0]](half + (np.eye(len(a)) if more[1] == "U" else diagonal))
        else:
            whole = half + (half.conj().T + diagonal.real if name == "hemm" else half.T + diagonal)
        product = alpha * (whole @ b if side == "L" else b @ whole)
        return product if name == "trmm" else product + beta * c
    uplo, *ops = letters
    x = OPERATIONS[ops[0]](a)
    adjoint = OPERATIONS["C" if name.startswith("he") else "T"]
    y = OPERATIONS[ops[-1]](b) if b is not None else x
    full = {"herk": lambda: alpha.real * (x @ adjoint(x)), "syrk": lambda: alpha * (x @ x.T), "gemmt": lambda: alpha * (x @ y),
            "syr2k": lambda: alpha * (x @ y.T + y @ x.T), "her2k": lambda: alpha * (x @ adjoint(y)) + np.conj(alpha) * (y @ adjoint(x))}[name]()
    full = full + (beta.real * np.where(np.eye(m, dtype=bool), c.real, c) if name.startswith("he") else beta * c)
    kept = np.tri(m, dtype=bool) if uplo == "L" else np.tri(m, dtype=bool).T
    return np.where(kept, full, c)


WAYS = [
    *((routine, "".join(letters)) for routine, ops in (("cherk", "NC"), ("cher2k", "NC"), ("csyrk", "NT"), ("csyr2k", "NT"))
      for letters in product_of("LU", ops)),
    *((routine, "".join(letters)) for routine in ("chemm", "csymm") for letters in product_of("LR", "LU")),
    *(("ctrmm", "".join(letters)) for letters in product_of("LR", "LU", "NTC", "N")), ("cgemmt", "LCT"), ("cgemmt", "LNN"), ("dsyr2k", "LT"),
]


@pytest.mark.parametrize(("routine", "letters"), WAYS, ids=["".join(way) for way in WAYS])
def test_blas_names_each_routine_of_level_3(made, routine, letters):
    """Column major, by letters of either case; what lies beside matrices is NaN, and so are the imaginary parts of a Hermitian diagonal."""
    rng, name, element = np.random.default_rng(7), routine[1:], F64 if routine[0] == "d" else C64
    sided, m, n, k = name in ("hemm", "symm", "trmm"), 5, 3 if name in ("hemm", "symm", "trmm") else 5, 7
    draw = lambda *shape: (rng.integers(-8, 9, shape) + (1j * rng.integers(-8, 9, shape) if element.reals > 1 else 0)).astype(element.dtype)
    order = (m if letters[0] == "L" else n) if sided else k
    shapes = {"a": (order, order) if sided else (m, k) if letters[1] == "N" else (k, m), "c": (m, n)}
    if name not in ("herk", "syrk"):
        shapes["b"] = (m, n) if sided else (k, m) if name == "gemmt" and letters[2] == "N" else (m, k) if name == "gemmt" else shapes["a"]
    given = {x: draw(*shape) for x, shape in shapes.items()}
    if name in ("hemm", "herk", "her2k"):
        of = given["a" if name == "hemm" else "c"]
        np.fill_diagonal(of, of.diagonal().real + 1j * np.nan)
    held = {}
    for x, one in given.items():
        padded = np.full((one.shape[1], one.shape[0] + 3), np.nan, element.dtype)
        padded[:, : one.shape[0]] = one.T
        held[x] = made.put(padded)
    if name == "trmm":
        held["c"] = held["b"]
    alpha, beta = (2 - 3j, 0.5 if name == "her2k" else 1 + 1j) if element.reals > 1 and name != "herk" else (2.0, 0.5)
    scalars = [made.put(np.array([one, np.nan], element.part.dtype) if np.isrealobj(one) else np.array([one], element.dtype)) for one in (alpha, beta)]
    at = lambda x: ctypes.c_void_p(x.ctypes.data)
    operands = [argument for x in "ab" if x in held for argument in (at(held[x]), ctypes.c_int(held[x].shape[1]))]
    sizes = (m, n) if sided else (m, k)

    def call(*told: str) -> int:
        last = () if name == "trmm" else (at(scalars[1]), at(held["c"]), ctypes.c_int(held["c"].shape[1]))
        return made(routine, *(ctypes.c_char(one.encode()) for one in told), *sizes, at(scalars[0]), *operands, *last, None)

    assert [call(*letters[:place], "?", *letters[place + 1:]) for place in range(len(letters))] == [-place - 1 for place in range(len(letters))]
    if name in ("herk", "her2k", "syrk", "syr2k") and element.reals > 1:
        assert call(letters[0], "T" if name.startswith("he") else "C") == -2
    launched = len(made.launched)
    assert call(*letters.lower()) == OK
    with np.errstate(invalid="ignore"):
        want = reference(routine, letters, complex(alpha), complex(beta), given["a"], given.get("b"), given["c"])
    rounds = 2 if name in ("her2k", "syr2k") else 1
    assert sum(symbol.endswith(f"_{len(made.kernels[at].built.source.launches) - 1}") for at, symbol in (
        (next(i for i, one in enumerate(made.kernels) if symbol.startswith(f"{one.label}_")), symbol) for symbol, _ in made.launched[launched:]
        if not symbol.startswith("finish"))) == rounds
    c = np.asarray(held["c"])
    found = c[:, :m].T
    want = want.astype(element.dtype) if element.reals > 1 else want.real
    assert np.array_equal(found[np.isfinite(want)], want[np.isfinite(want)]) and np.isnan(c[:, m:]).all()
    assert name not in ("herk", "her2k") or not found.diagonal().imag.any()
    scalars[0].view(element.part.dtype)[0 if np.isrealobj(alpha) else slice(None)] = 0
    operands[0] = None
    assert call(*letters) == OK, "with an alpha of 0 A is not read"


def test_what_a_hermitian_matrix_is_not(made):
    """Of real elements; transposed without a conjugate; with scalars on the device, which are of two types."""
    one = Call(made, m=5, n=5, k=5)

    def code(**fields):
        changed, choice = Problem.from_buffer_copy(one.problem), sized(Choice)
        for name, value in fields.items():
            setattr(changed, name, value)
        return made("select", ctypes.byref(changed), ctypes.byref(sized(Target, arch=b"sm_80", units=108)), ctypes.byref(choice)) or choice

    hemm, herk, her2k = 7, 8, 9
    for kind in (hemm, herk, her2k):
        assert code(kind=kind, element=F64.number) == BAD_KIND and code(kind=kind).sgemm_seconds > 0
    assert code(kind=10) == BAD_KIND and code(kind=herk, transpose_a=1) == code(kind=her2k, transpose_a=1) == code(kind=1, transpose_a=2) == BAD_ORDER
    assert code(kind=herk, flags=ON_DEVICE) == code(kind=her2k, flags=ON_DEVICE) == BAD_FLAGS
    for name in ("m", "n", "k", "lda", "ldb", "ldc"):
        setattr(one.problem, name, 4000)
    one.problem.beta = None  # a triangle's C would be read in half
    whole, half, both, beside = (code(kind=kind).sgemm_seconds for kind in (0, herk, her2k, hemm))
    assert whole == both == beside and half == pytest.approx(whole / 2, rel=1e-2)


def test_the_tables_tell_letters_elements_and_vendors(made):
    rows = (made.folder / "tables.h").read_text()
    assert 'finish_symbols[] = {\n    "finish",\n    "finish_f64",\n    "finish_c64",\n    "finish_c128",\n}' in rows
    gpu = made.kernels[0].built.plan.gpu
    assert tables.vendors(gpu) == (*(real := tables.vendors(gpu)[:2]), *real), "complex products as the real ones that stand for them"


@pytest.mark.parametrize("elements", [(F32, C64), (F64,), (C128,)], ids=["FP32", "FP64", "complex FP64"])
def test_the_kernel_of_epilogues_defines_fma_of_doubles_where_the_platform_has_none(elements):
    """HIP's compiler is given no header; CUDA's has it."""
    is_wide = elements[-1].part is F64
    for arch, defines in (("gfx942", is_wide), ("sm_80", False)):
        text = finish_source(arch, elements).text
        assert text.count("double fma(") == defines and ("fma(" in text.replace("fmaf(", "")) == is_wide
