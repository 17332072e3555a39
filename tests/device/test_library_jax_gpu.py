"""A library's functions for JAX on a real GPU, against FP64 of NumPy."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the tests of other frameworks need memory, too
jax = pytest.importorskip("jax", reason="jax is not installed")

import jax.numpy as jnp
import numpy as np

import library_folder


def on_gpu() -> bool:
    try:
        return jax.default_backend() == "gpu"
    except RuntimeError:
        return False


pytestmark = pytest.mark.device


@pytest.fixture(scope="module")
def own():
    if not on_gpu():
        pytest.skip("NOT RUN: JAX sees no GPU")
    return library_folder.module("jax")


def made(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed + sum(shape)).standard_normal(shape, dtype=np.float32))


def near(got, want):
    want = np.asarray(want)
    assert got.shape == want.shape and got.dtype == np.float32
    assert np.linalg.norm(np.asarray(got, np.float64) - want) <= 1e-6 * np.linalg.norm(want)


def exact(x):
    return np.asarray(x, np.float64)


SHAPES = [((512, 384), (384, 640)), ((3, 500, 333), (333, 777)), ((3, 500, 333), (3, 333, 777)), ((500, 333), (3, 333, 777)), ((64,), (64, 5))]


@pytest.mark.parametrize("a, b", SHAPES)
def test_matmul(own, a, b):
    a, b = made(*a), made(*b)
    near(own.matmul(a, b), exact(a) @ exact(b))
    near(jax.jit(own.matmul)(a, b), exact(a) @ exact(b))


def test_many_calls_in_one_program(own):
    """Long enough for XLA to put them into command buffers."""
    w = made(256, 256) / 16

    @jax.jit
    def program(x):
        for _ in range(12):
            x = own.matmul(x, w, activation="relu")
        return x

    want = exact(made(128, 256))
    for _ in range(12):
        want = np.maximum(want @ exact(w), 0)
    for _ in range(5):
        got = program(made(128, 256))
    assert np.linalg.norm(exact(got) - want) <= 1e-5 * np.linalg.norm(want)


def test_gradients(own):
    a, b, bias = made(300, 400), made(400, 500), made(500)

    def loss(a, b, bias):
        return (own.matmul(a, b, bias=bias, activation="relu") * weights).sum()

    weights = made(300, 500, seed=4)
    of_a, of_b, of_bias = jax.jit(jax.grad(loss, (0, 1, 2)))(a, b, bias)
    grad = np.where(exact(a) @ exact(b) + exact(bias) > 0, exact(weights), 0)
    # A sum whose sign is lost in rounding turns an element on or off.
    assert np.linalg.norm(exact(of_a) - grad @ exact(b).T) <= 1e-4 * np.linalg.norm(exact(of_a))
    assert np.linalg.norm(exact(of_b) - exact(a).T @ grad) <= 1e-4 * np.linalg.norm(exact(of_b))
    assert np.linalg.norm(exact(of_bias) - grad.sum(0)) <= 1e-4 * np.linalg.norm(exact(of_bias))


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_vmap(own, axes):
    a, b = made(*((4,) if axes[0] == 0 else ()), 200, 300), made(*((4,) if axes[1] == 0 else ()), 300, 100)
    near(jax.jit(jax.vmap(own.matmul, axes))(a, b), exact(a) @ exact(b))


def test_dot_general(own):
    a, b = made(4, 200, 300), made(300, 4, 100)
    got = own.dot_general(a, b, (((2,), (0,)), ((0,), (1,))))
    near(got, np.einsum("bij,jbk->bik", exact(a), exact(b)))
