"""What a library does to C behind a product, kernel by kernel call: scalars of the device, bias, activation, batches told either way."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from assembled import ptx_of

from gemmgen.catalog.element import C64, C128, F64
from gemmgen.catalog.gpu import GPUS
from gemmgen.emulate import TOGETHER, Emulator
from gemmgen.library.kernel import FINISH, FINISH_THREADS, FINISH_TILE, finish_source, finish_symbol

ROWS, COLUMNS = FINISH_TILE
M, N, BATCH = ROWS + 3, 2 * COLUMNS - 1, 3  # the last columns of a row are those of a block's last lane
FAR = 1 << 32
"""Elements behind which the last row of each matrix begins."""
LD = -(-FAR // (M - 1)) + 1


@cache
def emulator() -> Emulator:
    source = finish_source("sm_80")
    return Emulator(ptx_of(source.text, "sm_80"), GPUS.get("a100").unit, source=source.text, processes=1, schedule=TOGETHER)


def finished(c, t, alpha, beta, bias, activation, pointers=False, device_beta=True, triangle=0) -> np.ndarray:
    """C [batch, M, N] behind the kernel; T None is C itself."""
    machine = emulator()
    machine.forget()
    stride = M * LD + 4

    def placed(x, name, ld):  # and the stride that tells kernels that matrices lie a stride apart, or that an array of pointers tells them
        if not pointers:
            return machine.upload_rows(x, name=name, ld=ld, stride=stride), stride
        each = [machine.upload_rows(one[None], name=name, ld=ld) for one in x]
        buffers.setdefault(name, each)
        return machine.upload(np.array([one.address for one in each], np.uint64), name=f"{name}s"), int(-(1 << 63))

    def number(x, name):
        return None if x is None else machine.upload(np.array([x], np.float32), name=name)

    buffers: dict = {}
    held, stride_c = placed(c, "c", LD)
    told, stride_t, ldt = (held, stride_c, LD) if t is None else (*placed(t, "t", LD + 3), LD + 3)
    blocks = -(-N // COLUMNS) * -(-M // ROWS) * BATCH
    machine.launch(FINISH, (blocks, 1, 1), (FINISH_THREADS, 1, 1), 0, [
        held, LD, stride_c, told, ldt, stride_t, number(alpha, "alpha"), number(beta, "beta") if device_beta else None, 7.0 if device_beta else beta,
        None if bias is None else machine.upload(bias, name="bias"), M, N, triangle, activation,
    ])
    if pointers:
        return np.stack([machine.read_rows(one, np.float32, (1, M, N), ld=LD)[0] for one in buffers["c"]])
    return machine.read_rows(held, np.float32, (BATCH, M, N), ld=LD, stride=stride)


def drawn():
    rng = np.random.default_rng(3)
    c, t = (rng.integers(-9, 10, (BATCH, M, N)).astype(np.float32) for _ in range(2))
    return c, t, rng.integers(-9, 10, N).astype(np.float32)


@pytest.mark.parametrize("pointers", [False, True], ids=["strided", "pointers"])
def test_every_product_of_a_batch_has_bias_activation_and_scalars(pointers):
    """A NaN of the product stays one behind ReLU, in the last element, too."""
    c, t, bias = drawn()
    t[0, 0, 1] = t[1, 2, 3] = t[-1, -1, -1] = np.nan
    t[1, 0, 0], t[1, 0, 1] = np.inf, -np.inf
    x = -0.5 * t + 2 * c + bias
    want = np.where(np.isnan(x), x, np.maximum(x, 0))
    assert np.array_equal(finished(c, t, -0.5, 2.0, bias, 1, pointers), want, equal_nan=True)


def test_scalars_that_are_not_on_the_device_and_none():
    """Where alpha is not told it is 1, where beta is told by value it is that; T is C."""
    c, t, _ = drawn()
    assert np.array_equal(finished(c, t, None, -3.0, None, 0, device_beta=False), t - 3 * c)
    assert np.array_equal(finished(c, None, 0.5, 0.0, None, 0), 0.5 * c)


@pytest.mark.parametrize("triangle", [1, 2], ids=["lower", "upper"])
def test_a_triangle_has_its_diagonal_and_nothing_beside_it_is_written(triangle):
    c, t, _ = drawn()
    kept = np.tri(M, N, dtype=bool) if triangle == 1 else ~np.tri(M, N, -1, dtype=bool)
    assert np.array_equal(finished(c, t, 0.5, 2.0, None, 0, triangle=triangle), np.where(kept, 0.5 * t + 2 * c, c))


def test_what_counts_for_nothing_may_be_nan():
    c, t, bias = drawn()
    nans = np.full_like(c, np.nan)
    assert np.array_equal(finished(nans, t, 2.0, 0.0, bias, 0), 2 * t + bias)
    assert np.array_equal(finished(c, nans, 0.0, 2.0, bias, 1), np.maximum(2 * c + bias, 0))


@pytest.mark.parametrize(("activation", "exact"), [
    (2, lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))), (3, lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
], ids=["GELU", "GELU by tanh"])
def test_activations_over_every_magnitude(activation, exact):
    _, _, bias = drawn()
    rng = np.random.default_rng(4)
    t = (rng.choice([-1, 1], (BATCH, M, N)) * np.exp2(rng.uniform(-12, 6.6, (BATCH, M, N)))).astype(np.float32)
    t[0, 0, 0] = np.nan
    found, want = finished(t, None, None, 0.0, None, activation), np.vectorize(exact)(t.astype(np.float64))
    assert np.isnan(found[0, 0, 0])
    found[0, 0, 0] = want[0, 0, 0] = 0
    t[0, 0, 0] = 1
    assert (np.abs(found - want) <= 1.5e-7 * np.abs(t)).all()  # the error function's 1e-7, and half of an ulp of FP32


OTHERS = (F64, C64, C128)


@cache
def emulator_of_others() -> Emulator:
    source = finish_source("sm_80", OTHERS)
    return Emulator(ptx_of(source.text, "sm_80"), GPUS.get("a100").unit, source=source.text, processes=1, schedule=TOGETHER)


@pytest.mark.parametrize("size", [(ROWS + 1, COLUMNS + 1), (ROWS, COLUMNS)], ids=["a row and a column more", "one tile"])
@pytest.mark.parametrize("element", OTHERS, ids=[one.name for one in OTHERS])
def test_other_elements_have_factors_bias_and_triangles(element, size):
    """A factor has both parts or either; one of 0 leaves NaN alone, and a real one each part."""
    machine, (m, n), pair, rng = emulator_of_others(), size, element.reals > 1, np.random.default_rng(5)

    def drawn(*shape):
        parts = rng.integers(-9, 10, (2, *shape))
        return (parts[0] + 1j * parts[1] if pair else parts[0]).astype(element.dtype)

    def number(x):
        return None if x is None else machine.upload(np.array([x], element.dtype), name="number")

    def finished(c, t, alpha, beta, bias=None, device_beta=True, triangle=0):
        machine.forget()
        held, beside = np.full((2, m, n + 3), 77, element.dtype), np.full((2, m, n + 5), np.nan, element.dtype)
        held[..., :n], beside[..., :n] = c, t
        c_there, t_there = machine.upload(held, name="c"), machine.upload(beside, name="t")
        value = 7 if device_beta else beta
        machine.launch(finish_symbol(element), (2 * -(-m // ROWS) * -(-n // COLUMNS), 1, 1), (FINISH_THREADS, 1, 1), 0, [
            c_there, n + 3, m * (n + 3), t_there, n + 5, m * (n + 5), number(alpha), number(beta) if device_beta else None, float(np.real(value)),
            None if bias is None else machine.upload(bias, name="bias"), m, n, triangle, *([float(np.imag(value))] if pair else [])])
        found = machine.read(c_there, element.dtype, held.shape)
        assert (found[..., n:] == 77).all()
        return found[..., :n]

    c, t, bias = drawn(2, m, n), drawn(2, m, n), drawn(n)
    nans, (alpha, beta, one) = np.full_like(c, np.nan), (2 - 3j, -1 + 2j, 1j) if pair else (2, -1, 1)
    for triangle, kept in enumerate((np.ones((m, n), bool), np.tri(m, n, dtype=bool), ~np.tri(m, n, -1, dtype=bool))):
        assert np.array_equal(finished(c, t, alpha, beta, bias, triangle=triangle), np.where(kept, alpha * t + beta * c + bias, c))
    assert np.array_equal(finished(c, t, 3 * one, -2 * one, device_beta=False), 3 * one * t - 2 * one * c)
    assert np.array_equal(finished(nans, t, None, 0, bias), t + bias)
    assert np.array_equal(finished(c, nans, 0, 2, device_beta=False), 2 * c)
    zeros = np.copysign(0.0, rng.choice([-1.0, 1.0], (2, m, n, element.reals))).astype(element.part.dtype)
    assert np.array_equal(np.signbit(finished(c, zeros.view(element.dtype)[..., 0], None, 0).view(element.part.dtype)), np.signbit(zeros.reshape(2, m, -1)))
    if pair:
        t.imag, c.imag = np.nan, np.nan
        found = finished(c, t, 2, -1)
        assert np.array_equal(found.real, 2 * t.real - c.real) and np.isnan(found.imag).all()
