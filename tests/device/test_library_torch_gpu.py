"""A library's operators for torch and its products of CuPy arrays on a real GPU, against FP64, with calls counted."""

from __future__ import annotations

import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import library_folder
from torch_models import Block

pytestmark = [pytest.mark.device, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")]
SIZES = [(512, 384, 640), (1000, 777, 333), (2048, 2048, 2048), (1, 512, 512), (130, 3, 5)]
WORSE = 4
"""How many times torch's own FP32 error, or 4e-7 where that is less, a product may have."""


@pytest.fixture(scope="module")
def own():
    torch.backends.cuda.matmul.allow_tf32 = False
    return library_folder.module("torch")


@pytest.fixture(scope="module")
def ops(own):
    return getattr(torch.ops, library_folder.package().__name__)


def made(*shape, grad=False, seed=0):
    x = torch.randn(*shape, device="cuda", generator=torch.Generator("cuda").manual_seed(seed + sum(shape)))
    return x.requires_grad_(grad)


def error(got, want):
    return ((got.double() - want).norm() / want.norm()).item() if want.norm() else got.double().norm().item()


def assert_right(got, own, want):
    """got: of the library; own: of torch in FP32; want: in FP64."""
    assert got.shape == want.shape and got.dtype == torch.float32 and torch.isfinite(got).all()
    assert error(got, want) <= WORSE * max(error(own, want), 2e-7), (error(got, want), error(own, want))


def assert_all_right(got, own, want):
    """The same of all that a model gives, against the largest of torch's errors: the matrix unit's truncation has a sign, so in a bias's gradient,
    the sum of many elements, its errors do not average out as those of FP32 do."""
    most = max(4e-7, *(error(one, right) for one, right in zip(own, want)))
    for one, right in zip(got, want):
        assert one.dtype == torch.float32 and torch.isfinite(one).all()
        assert error(one, right) <= WORSE * most, (error(one, right), most)


@pytest.mark.parametrize("turned", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("m, n, k", SIZES)
def test_mm(ops, m, n, k, turned):
    a = made(m, k) if turned[0] == "n" else made(k, m).t()
    b = made(k, n) if turned[1] == "n" else made(n, k).t()
    assert_right(ops.mm(a, b), a @ b, a.double() @ b.double())


@pytest.mark.parametrize("beta, alpha", [(1.0, 1.0), (0.5, 2.0), (0.0, 1.0)])
def test_addmm(ops, beta, alpha):
    a, b = made(700, 500), made(500, 600)
    for c in (made(700, 600), made(600), made(700, 1)):
        got, own, want = ops.addmm(c, a, b, beta, alpha), torch.addmm(c, a, b, beta=beta, alpha=alpha), (beta * c.double() + alpha * (a.double() @ b.double()))
        assert_right(got, own, want)


@pytest.mark.parametrize("a, b", [((6, 300, 200), (6, 200, 400)), ((1, 300, 200), (6, 200, 400)), ((6, 300, 200), (1, 200, 400))])
def test_bmm(ops, a, b):
    a, b = made(*a).expand(6, -1, -1), made(*b).expand(6, -1, -1)
    assert_right(ops.bmm(a, b), torch.bmm(a, b), torch.bmm(a.double(), b.double()))
    assert_right(ops.bmm(b.mT, a.mT), torch.bmm(b.mT, a.mT), torch.bmm(b.mT.double(), a.mT.double()))


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "gelu_tanh"])
def test_linear_and_its_gradients(ops, activation):
    def torch_s(x, weight, bias):
        y = torch.nn.functional.linear(x, weight, bias)
        return {None: lambda: y, "relu": lambda: torch.relu(y), "gelu": lambda: torch.nn.functional.gelu(y),
                "gelu_tanh": lambda: torch.nn.functional.gelu(y, approximate="tanh")}[activation]()

    given = [made(4, 256, 512, grad=True), made(768, 512, grad=True), made(768, grad=True)]
    exact = [x.detach().double().requires_grad_() for x in given]
    grad = made(4, 256, 768, seed=9)
    got, own, want = ops.linear(*given, activation), torch_s(*given), torch_s(*exact)
    assert_right(got, own, want)
    for one, other, right in zip(torch.autograd.grad(got, given, grad), torch.autograd.grad(own, given, grad), torch.autograd.grad(want, exact, grad.double())):
        if activation == "relu":  # elements whose sign is lost in rounding are on here and off there
            assert error(one, right) < 5e-3
        else:
            assert_right(one, other, right)


def mlp(width=1024):
    torch.manual_seed(0)
    return torch.nn.Sequential(*(layer for _ in range(3) for layer in (torch.nn.Linear(width, width), torch.nn.GELU()))).cuda()


def block(width=512, heads=4):
    torch.manual_seed(0)
    return Block(width, heads).cuda()


def trained(model, x):
    model.zero_grad(set_to_none=True)
    out = model(x)
    out.square().mean().backward()
    return [out.detach(), *(parameter.grad.clone() for parameter in model.parameters())]


MODELS = [(mlp, (1024, 1024), 3, 5), (block, (2, 512, 512), 6, 11)]


@pytest.mark.parametrize("model, shape, forward, backward", MODELS)
def test_a_model_s_products_are_taken(own, model, shape, forward, backward):
    model, x = model(), made(*shape)
    plain = trained(model, x)
    mode = own.taking(always=True)
    with mode as taken:
        got = trained(model, x)
    assert taken.taken.total() == forward + backward and not taken.passed, str(taken)
    assert_all_right(got, plain, trained(model.double(), x.double()))


@pytest.mark.parametrize("model, shape, forward, backward", MODELS)
def test_compiled_models(own, model, shape, forward, backward):
    model, x = model(), made(*shape)
    plain = trained(model, x)
    backend = own.Backend(always=True)
    got = trained(torch.compile(model, backend=backend, fullgraph=True), x)
    assert backend.taken.taken.total() == forward + backward, str(backend.taken)
    assert_all_right(got, plain, trained(model.double(), x.double()))


def test_operators_under_torch_compile_with_graphs(ops):
    """mode="reduce-overhead" captures them into CUDA graphs."""
    weight, bias = made(512, 512), made(512)
    step = torch.compile(lambda x: ops.linear(ops.linear(x, weight, bias, "relu"), weight), fullgraph=True, mode="reduce-overhead")
    for seed in range(4):
        x = made(256, 512, seed=seed)
        want = torch.relu(x.double() @ weight.double().t() + bias.double()) @ weight.double().t()
        assert error(step(x).clone(), want) < 1e-6


def test_a_captured_step_is_replayed_on_other_data(own):
    model, x = mlp(), made(512, 1024)
    with own.taking(always=True) as taken:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            trained(model, x)
        torch.cuda.current_stream().wait_stream(side)
        model.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = model(x)
            out.square().mean().backward()
        before = taken.taken.total()
        x.copy_(made(512, 1024, seed=7))
        graph.replay()
        got = [out.detach().clone(), *(parameter.grad.clone() for parameter in model.parameters())]
    assert taken.taken.total() == before == 16
    assert_all_right(got, trained(model, x), trained(model.double(), x.double()))


def test_streams_and_threads(ops):
    a, b = made(600, 700), made(700, 800)
    want, failed = ops.mm(a, b), []
    torch.cuda.synchronize()

    def work():
        with torch.cuda.stream(torch.cuda.Stream()) as _:
            found = [ops.mm(a, b) for _ in range(20)]
        torch.cuda.synchronize()
        failed.extend(not torch.equal(one, want) for one in found)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == [False] * 160


def test_two_devices(ops):
    if torch.cuda.device_count() < 2:
        pytest.skip("NOT RUN: one GPU")
    a, b = made(600, 700), made(700, 800)
    want = ops.mm(a, b)
    assert torch.equal(ops.mm(a.to("cuda:1"), b.to("cuda:1")).cpu(), want.cpu())


def test_tf32_is_passed_on_where_the_program_allows_it(own):
    a, b = made(512, 512), made(512, 512)
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        with own.taking(always=True) as taken:
            a @ b
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
    assert dict(taken.passed) == {("mm", "TF32 is allowed"): 1} and not taken.taken


def test_packed_weights(own):
    model = mlp()
    plain, exact = mlp(), mlp().double()
    packed = own.pack_linear(model)
    kinds = [type(layer).__name__ for layer in packed]
    if "PackedLinear" not in kinds:
        pytest.skip("NOT RUN: the library has no kernel that packs B")
    with torch.no_grad():
        for rows in (64, 500, 4096):
            x = made(rows, 1024)
            assert_right(packed(x), plain(x), exact(x.double()))


def test_products_of_cupy_arrays(own):
    cupy = pytest.importorskip("cupy")
    package = library_folder.package()
    rng = cupy.random.default_rng(0)
    a, b = rng.standard_normal((700, 500), cupy.float32), rng.standard_normal((500, 600), cupy.float32)
    want = a.astype(cupy.float64) @ b.astype(cupy.float64)

    def near(got, want):
        return float(cupy.linalg.norm(got - want) / cupy.linalg.norm(want)) < 1e-6

    assert near(package.matmul(a, b), want)
    assert near(package.matmul(cupy.asfortranarray(a), b[:, ::2]), want[:, ::2])
    c = cupy.ones((700, 600), cupy.float32)
    assert package.matmul(a, b, out=c, alpha=2, beta=0.5) is c and near(c, 2 * want + 0.5)
    scalars = cupy.asarray([2, 0.5], cupy.float32)
    c = cupy.ones((700, 600), cupy.float32)
    assert near(package.matmul(a, b, out=c, alpha=scalars[:1], beta=scalars[1:]), 2 * want + 0.5)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        assert near(package.matmul(a, b, bias=b[0].copy(), activation="relu"), cupy.maximum(want + b[0], 0))
        stream.synchronize()
    batch = cupy.stack([a, 2 * a])
    assert near(package.matmul(batch, b), cupy.stack([want, 2 * want]))
    try:
        packed = package.pack(b)
    except package.Error as refused:
        assert refused.code == -21
        return
    for rows in (1, 64, 700):
        assert near(package.matmul(a[:rows], packed), want[:rows])
