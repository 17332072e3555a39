"""`gemmgen.matmul` on a real GPU, against FP64: the library is built or found, and both ways are right."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import gemmgen
from gemmgen import api
from gemmgen.errors import SpecError
from gemmgen.run.here import cuda_gpus

pytestmark = [pytest.mark.device, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")]
SHAPES = [((64, 64), (64, 64)), ((1000, 333), (333, 777)), ((2048, 2048), (2048, 2048)),
          ((3, 256, 512), (512, 256)), ((4, 1, 300, 200), (5, 200, 100)), ((512,), (512, 9))]


def error(got, want):
    return ((got.double() - want).norm() / want.norm()).item()


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_products_and_gradients(a, b):
    a, b = (torch.randn(*shape, device="cuda", requires_grad=True) for shape in (a, b))
    for x, y in ((a, b), (a.detach(), b.detach()), (a.detach() + 1, b.detach())):
        got = gemmgen.matmul(x, y)
        assert got.dtype == torch.float32 and error(got, x.double() @ y.double()) < 2e-6
    for got, want in zip(torch.autograd.grad(gemmgen.matmul(a, b).square().sum(), (a, b)),
                         torch.autograd.grad((a.double() @ b.double()).square().sum(), (a, b))):
        assert error(got, want.double()) < 1e-5


def test_a_large_product_is_the_librarys(monkeypatch):
    """On GPUs where a scheme is predicted to be faster than FP32."""
    package = api._package(cuda_gpus()[torch.cuda.current_device()])
    if package is None:
        pytest.skip("no library is faster than FP32 on this GPU")
    a = torch.randn(4096, 4096, device="cuda")
    front = api._front(torch)
    front._known.clear(), api._short.clear()
    gemmgen.matmul(a, a)
    assert [product.__qualname__.split(".")[1] for product in front._known.values()] == ["_guarded"]


@pytest.mark.parametrize("size", [64, 4096])
def test_a_later_call_looks_at_what_has_changed(size):
    """The short way of both shapes, torch's or a kernel's, on the tensors of the first call: settings, gradients, signs, strides and another GPU."""
    a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
    for _ in range(2):
        assert error(gemmgen.matmul(a, b), a.double() @ b.double()) < 2e-6
    for x, y in ((a.t(), b), (a, b.t()), (torch._neg_view(a), b), (a, torch._neg_view(b)), (a, a)):
        assert error(gemmgen.matmul(x, y), x.double() @ y.double()) < 2e-6
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        with torch.autocast("cuda"):
            got = gemmgen.matmul(a, b)
        assert got.dtype == torch.float32
        assert max(error(one, a.double() @ b.double()) for one in (got, gemmgen.matmul(a, b))) < 2e-6
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert gemmgen.matmul(a.requires_grad_(), b).requires_grad and not gemmgen.matmul(a.detach(), b).requires_grad
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(a.detach(), torch.ones_like(a))
        tangent = torch.autograd.forward_ad.unpack_dual(gemmgen.matmul(dual, b)).tangent
    assert error(tangent, torch.ones_like(a).double() @ b.double()) < 2e-6
    if torch.cuda.device_count() > 1:
        x, y = (one.detach().to("cuda:1") for one in (a, b))
        got = gemmgen.matmul(x, y)
        assert got.device == x.device and error(got, x.double() @ y.double()) < 2e-6
        with pytest.raises(SpecError, match="two devices"):
            gemmgen.matmul(a.detach(), y)


def test_a_captured_graph_replays_the_product():
    a, b = (torch.randn(512, 512, device="cuda") for _ in range(2))
    gemmgen.matmul(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = gemmgen.matmul(a, b)
    a.copy_(torch.randn_like(a))
    graph.replay()
    assert error(c, a.double() @ b.double()) < 2e-6


def test_a_product_in_another_stream_and_without_tf32():
    a = torch.randn(2048, 2048, device="cuda")
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.cuda.stream(torch.cuda.Stream()):
            c = gemmgen.matmul(a * 2, a)
            torch.cuda.current_stream().synchronize()
        assert error(c, 2 * a.double() @ a.double()) < 2e-6
    finally:
        torch.set_float32_matmul_precision("highest")


def test_arrays_of_cupy_and_numpy():
    cupy = pytest.importorskip("cupy")
    a, b = (cupy.random.default_rng(seed).standard_normal((1000, 1000), dtype=cupy.float32) for seed in (0, 1))
    want = cupy.asnumpy(a).astype(float) @ cupy.asnumpy(b)
    for got in (cupy.asnumpy(gemmgen.matmul(a, b)), gemmgen.matmul(cupy.asnumpy(a), cupy.asnumpy(b)), cupy.asnumpy(gemmgen.matmul(a.T.copy().T, b))):
        assert abs(got - want).max() < 2e-3
