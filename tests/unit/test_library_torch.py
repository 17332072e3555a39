"""A library's operators for torch, over the reference library on the CPU. `make test` installs torch for the CPU where it can be had; elsewhere these skip, and
tests/unit/test_library_torch_surface.py has a stand-in."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch for the CPU is not installed")

import reference
from torch_models import Block

EVERY = ["mm", "addmm", "bmm", "linear"]


@pytest.fixture(scope="module")
def lab():
    return reference.imported("lab.torch")


@pytest.fixture(scope="module")
def library():
    return reference.load()


def made(*shape, grad=False, seed=0):
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))
    return x.requires_grad_(grad)


def samples(grad=False):
    return {
        "mm": [(made(5, 9, grad=grad), made(9, 7, grad=grad)), (made(9, 5, grad=grad).t(), made(7, 9, grad=grad).t())],
        "addmm": [
            (made(7, grad=grad), made(5, 9, grad=grad), made(9, 7, grad=grad)), (made(5, 7, grad=grad), made(5, 9, grad=grad), made(9, 7, grad=grad), 0.5, 2.0),
            (made(5, 1, grad=grad), made(5, 9, grad=grad), made(9, 7, grad=grad), 0.0, 1.0),
        ],
        "bmm": [(made(3, 5, 9, grad=grad), made(3, 9, 7, grad=grad)), (made(1, 5, 9).expand(3, 5, 9), made(3, 7, 9, grad=grad).mT)],
        "linear": [
            (made(2, 5, 9, grad=grad), made(7, 9, grad=grad), made(7, grad=grad), activation) for activation in (None, "relu", "gelu", "gelu_tanh")
        ] + [(made(9, grad=grad), made(7, 9, grad=grad))],
    }


def wanted(name, *args):
    """The same of torch in FP64."""
    args = [x.double() if isinstance(x, torch.Tensor) else x for x in args]
    if name == "linear":
        x = torch.nn.functional.linear(*args[:3])
        form = args[3] if len(args) > 3 else None
        return x if form is None else torch.relu(x) if form == "relu" else torch.nn.functional.gelu(x, approximate="tanh" if form == "gelu_tanh" else "none")
    if name == "addmm" and len(args) > 3:
        return torch.addmm(*args[:3], beta=args[3], alpha=args[4])
    return getattr(torch, name)(*args)


@pytest.mark.parametrize("name", EVERY)
def test_products_and_gradients(lab, name):
    for args in samples(grad=True)[name]:
        leaves = [x for x in args if isinstance(x, torch.Tensor) and x.requires_grad]
        got, want = getattr(torch.ops.lab, name)(*args), wanted(name, *args)
        torch.testing.assert_close(got, want.float())
        weights = made(*got.shape, seed=5)
        torch.testing.assert_close(torch.autograd.grad(got, leaves, weights), torch.autograd.grad(want, leaves, weights.double()))


@pytest.mark.parametrize("name", EVERY)
def test_opcheck(lab, name):
    for grad in (False, True):
        for args in samples(grad)[name][:2]:
            torch.library.opcheck(getattr(torch.ops.lab, name).default, args)


def test_opcheck_packed(lab):
    layer = lab.PackedLinear(torch.nn.Linear(9, 7))
    torch.library.opcheck(torch.ops.lab.packed_linear.default, (made(5, 9), layer.weight, layer.bias, layer.memory, layer.format, "relu"))


def test_second_gradients(lab):
    x, w = made(3, 4, grad=True), made(4, 5, grad=True)
    first, = torch.autograd.grad(torch.ops.lab.mm(x, w).pow(3).sum(), x, create_graph=True)
    got, = torch.autograd.grad(first.sum(), w)
    first, = torch.autograd.grad((x @ w).pow(3).sum(), x, create_graph=True)
    torch.testing.assert_close(got, torch.autograd.grad(first.sum(), w)[0])


def test_vmap(lab):
    a, b = made(3, 5, 9), made(9, 7)
    torch.testing.assert_close(torch.vmap(torch.ops.lab.mm, (0, None))(a, b), a @ b)
    torch.testing.assert_close(torch.vmap(torch.ops.lab.bmm, (None, 1))(a, made(3, 2, 9, 7)), a @ made(3, 2, 9, 7).movedim(1, 0))


def mlp(width=8):
    torch.manual_seed(0)
    first, second, third = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, 2 * width, bias=False), torch.nn.Linear(2 * width, width)
    return torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.GELU(), third)


def trained(model, x):
    model.zero_grad()
    loss = model(x).square().sum()
    loss.backward()
    return loss.detach(), [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("model, shape, forward, backward", [(mlp, (6, 8), 3, 5), (Block, (2, 5, 16), 6, 11)])
def test_a_model_s_own_products_are_taken(lab, library, model, shape, forward, backward):
    model, x = model(), made(*shape)
    want = trained(model, x)
    before, mode = library.lab_calls(), lab.taking(always=True)
    with mode as taken:
        got = trained(model, x)
    torch.testing.assert_close(got, want)
    assert taken.taken.total() == forward + backward and not taken.passed
    assert library.lab_calls() == before + forward + backward
    trained(model, x)
    assert taken.taken.total() == forward + backward


def test_what_is_passed_on_and_why(lab, monkeypatch):
    a, b = made(5, 9), made(9, 7)
    with lab.taking() as taken:
        a @ b
        a.double() @ b.double()
        a[:, :2] @ b[:2]
        a[:0] @ b
        torch.backends.cuda.matmul.allow_tf32 = True
        a @ b
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.mm(a, b, out=torch.empty(5, 7))
        torch.baddbmm(made(2, 1, 7), made(2, 5, 9), made(2, 9, 7), beta=0.5)
        with torch.inference_mode():
            torch.nn.functional.linear(made(2, 3, 9), made(7, 9), made(7))
            torch.matmul(made(2, 5, 9), made(2, 9, 7))
    assert dict(taken.taken) == {"mm": 2, "baddbmm": 1, "linear": 1, "bmm": 1}
    assert dict(taken.passed) == {
        ("mm", "float64"): 1, ("mm", "no kernel for matrix units serves it"): 1, ("mm", "empty"): 1, ("mm", "TF32 is allowed"): 1,
    }
    assert "passed on  mm: float64" in str(taken)


@pytest.mark.parametrize("form", ["baddbmm", "addmm"])
def test_alpha_and_beta_under_the_mode(lab, form):
    batch = (3,) if form == "baddbmm" else ()
    c, a, b = made(*batch, 5, 7), made(*batch, 5, 9), made(*batch, 9, 7)
    for beta, alpha in ((1, 1), (0.5, 2), (0, 3)):
        with lab.taking() as taken:
            got = getattr(torch, form)(c, a, b, beta=beta, alpha=alpha)
        torch.testing.assert_close(got, getattr(torch, form)(c, a, b, beta=beta, alpha=alpha))
        assert taken.taken[form] == 1
    torch.testing.assert_close(lab.matmul(a, b, bias=made(7), activation="relu"), torch.relu(a @ b + made(7)))


def test_compiled_models_keep_the_operators_in_one_graph(lab, library):
    def step(x, w):
        return torch.relu(torch.ops.lab.linear(x, w) + 1).sum()

    x, w = made(5, 9, grad=True), made(7, 9, grad=True)
    want = torch.autograd.grad(step(x, w), (x, w))
    assert torch._dynamo.explain(step)(x, w).graph_break_count == 0
    got = torch.autograd.grad(torch.compile(step, backend="aot_eager", fullgraph=True)(x, w), (x, w))
    torch.testing.assert_close(got, want)


def test_a_compiled_model_s_products_are_taken_forward_and_backward(lab, library):
    from torch._functorch.aot_autograd import make_boxed_func

    model, x = Block(), made(2, 5, 16)
    want = trained(model, x)
    back = lab.Backend(always=True, compiler=lambda graph, inputs: make_boxed_func(graph.forward))
    compiled = torch.compile(model, backend=back, fullgraph=True)
    before = library.lab_calls()
    torch.testing.assert_close(trained(compiled, x), want)
    assert library.lab_calls() == before + 17 and back.taken.taken.total() == 17


@pytest.mark.long
def test_inductor_and_its_caches(lab, library, monkeypatch, tmp_path):
    """What plain torch compiled is not taken for ours, nor the other way round."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    x = made(2, 5, 16)
    for backend, calls in (("inductor", 0), (lab.backend, 17), ("inductor", 0), (lab.backend, 17)):
        torch._dynamo.reset()
        before = library.lab_calls()
        torch.manual_seed(0)
        model = Block()
        torch.testing.assert_close(trained(torch.compile(model, backend=backend, fullgraph=True), x), trained(model, x))
        assert library.lab_calls() == before + calls


def test_packed_models(lab, library):
    model, x = mlp(), made(6, 8)
    want = model(x)
    packed = lab.pack_linear(mlp(), least=200)
    assert [type(layer).__name__ for layer in packed] == ["Linear", "ReLU", "PackedLinear", "GELU", "Linear"]
    packed = lab.pack_linear(mlp())
    before = library.lab_packed_calls()
    with torch.no_grad():
        for rows in (6, 1, 3):
            torch.testing.assert_close(packed(x[:rows]), want[:rows])
    assert library.lab_packed_calls() == before + 9
    torch.testing.assert_close(torch.compile(packed, backend="aot_eager", fullgraph=True)(x), want)
    with pytest.raises(RuntimeError, match="stays where it is"):
        packed.double()
    with pytest.raises(TypeError, match="float32"):
        lab.PackedLinear(torch.nn.Linear(3, 4).double())


@pytest.mark.parametrize(
    "a, b", [((5, 9), (9, 7)), ((4, 5, 9), (9, 7)), ((2, 3, 5, 9), (3, 9, 7)), ((9,), (9, 7)), ((5, 9), (9,)), ((9,), (9,)), ((5, 0), (0, 7))])
def test_matmul_broadcasts(lab, a, b):
    torch.testing.assert_close(lab.matmul(made(*a), made(*b)), made(*a) @ made(*b))


def test_threads(lab):
    from concurrent.futures import ThreadPoolExecutor

    a, b = made(40, 30), made(30, 20)
    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda i: torch.ops.lab.mm(a, b), range(64)):
            torch.testing.assert_close(got, a @ b)


def test_the_numpy_like_call_knows_gradients(lab):
    import lab as package

    a, b = made(5, 9, grad=True), made(9, 7)
    package.matmul(a, b).sum().backward()
    torch.testing.assert_close(a.grad, b.sum(1).expand(5, 9))
    out = torch.zeros(5, 7)
    package.matmul(a.detach(), b, out=out, stream=0)
    torch.testing.assert_close(out, a.detach() @ b)


def test_refusals(lab):
    for name, args, told in (
        ("mm", (made(5, 9).double(), made(9, 7).double()), "float32"),
        ("mm", (made(5, 8), made(9, 7)), "shapes"),
        ("bmm", (made(2, 5, 9), made(3, 9, 7)), "as many"),
        ("linear", (made(5, 9), made(7, 9), made(6)), "bias"),
        ("linear", (made(5, 9), made(7, 9), None, "tanh"), "activation"),
    ):
        with pytest.raises(Exception, match=told):
            getattr(torch.ops.lab, name)(*args)


def test_views_of_conjugates_are_multiplied(library):
    """By the package's own `matmul`: torch tells no protocol that memory holds the conjugates: x.mH is read as it lies, and others are copied."""
    def drawn(*shape):
        return torch.complex(made(*shape), made(*shape, seed=1))

    a, b, before = drawn(9, 5), drawn(7, 9), library.lab_calls()
    for x, y in ((a.mH, b.mH), (a.T, b.mH), (a.T.conj(), b.T), (a.T.contiguous().conj(), b.T.contiguous().conj())):
        got = reference.imported().matmul(x, y)
        assert got.dtype == torch.complex64 and not got.is_conj()
        torch.testing.assert_close(got, x @ y)
    assert library.lab_calls() == before + 4
