"""A library's torch module over the reference library, with a stand-in for torch (tests/support/stand_in/torch_surface.py) that every machine has.

The tests ask what is read of tensors, the operators' rules, what is taken and why not, and what only a GPU would show: devices, streams, contexts.
tests/unit/test_library_torch.py has the real torch.
"""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import reference

sys.path.insert(0, str(Path(__file__).parents[1] / "support" / "stand_in"))

import torch_surface
from torch_surface import Parameter, Tensor, device, strided

GPU = device("cuda", 1)


@pytest.fixture(scope="module")
def lab():
    reference.imported()
    found = torch_surface.loaded(reference.package() / "lab" / "torch.py", "lab_torch_surface")
    found.library, found.call = reference.load(), found._c.run
    return found


@pytest.fixture(autouse=True)
def anew(lab):
    lab._plans.clear()
    lab._c._choices.clear()
    lab.torch.cuda.current = 0
    lab.torch.cuda.met.clear()
    lab.torch.backends.cuda.matmul.allow_tf32 = False


@pytest.fixture
def calls(lab, monkeypatch):
    """What the library is called with."""
    found = []

    def run(problem, packed, workspace, size, stream):
        found.append(SimpleNamespace(problem=type(problem).from_buffer_copy(problem), packed=packed, workspace=workspace, bytes=size, stream=stream,
                                     current=lab.torch.cuda.current))
        return lab.call(problem, packed, workspace, size, stream)

    monkeypatch.setattr(lab._c, "run", run)
    return found


def numbers(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).integers(-4, 5, shape).astype(np.float32)


def made(*shape, seed=0, on=torch_surface.CPU):
    return Tensor(numbers(*shape, seed=seed), on)


def same(got, want):
    np.testing.assert_array_equal(got.value, np.asarray(want, np.float32))
    assert not got.is_neg()


WAYS = {
    "rows": lambda m, n: (n, 1), "rows with gaps": lambda m, n: (n + 3, 1), "columns": lambda m, n: (1, m), "columns with gaps": lambda m, n: (1, m + 2),
    "neither": lambda m, n: (2 * n + 1, 2), "rows that overlap": lambda m, n: (0, 1),
}


@pytest.mark.parametrize("negative", [False, True])
def test_matrices_wherever_they_lie(lab, negative):
    """Strides, offsets into memory and signs that are not in memory; copied only where neither rows nor columns are contiguous."""
    a, b = numbers(5, 9), numbers(9, 7, seed=1)
    for (name_a, of_a), (name_b, of_b) in itertools.product(WAYS.items(), WAYS.items()):
        a, b = (np.broadcast_to(x[:1], x.shape) if "overlap" in name else x for x, name in ((numbers(5, 9), name_a), (numbers(9, 7, seed=1), name_b)))
        same(lab.mm(strided(a, of_a(5, 9), negative=negative), strided(b, of_b(9, 7), negative=not negative)), a @ b)
    c, bias = numbers(5, 7, seed=2), numbers(7, seed=3)
    for way in ("rows", "rows with gaps", "columns", "neither"):
        same(lab.addmm(strided(c, WAYS[way](5, 7), negative=negative), Tensor(a), Tensor(b), 0.5, 2.0), 2 * (a @ b) + 0.5 * c)
    for stride in (1, 2):
        one = strided(bias, (stride,), negative=negative)
        same(lab.addmm(one, Tensor(a), Tensor(b), 1.0, 3.0), 3 * (a @ b) + bias)
        same(lab.addmm(one, Tensor(a), Tensor(b), 2.0, 1.0), a @ b + 2 * bias)
        same(lab.linear(Tensor(a), strided(b.T.copy(), (1, 7), negative=negative), one, "relu"), np.maximum(a @ b + bias, 0))
    same(lab.addmm(Tensor(np.float32([3, *[np.nan] * 9])[:1]), Tensor(a), Tensor(b), 1.0, 1.0), a @ b + 3)
    same(lab.addmm(strided(numbers(5, 1), (1, 1)), Tensor(a), Tensor(b)), a @ b + numbers(5, 1))
    same(lab.addmm(Tensor(np.full((5, 7), np.nan, np.float32)), Tensor(a), Tensor(b), 0.0, 1.0), a @ b)


def test_batches_wherever_they_lie(lab, calls):
    """One call each where their strides allow it: an operand that is shared, in rows or columns, apart or side by side."""
    for batch, m, n, k in ((3, 5, 7, 9), (1, 5, 7, 9), (4, 1, 7, 9), (2, 6, 1, 5)):
        a, b = numbers(batch, m, k), numbers(batch, k, n, seed=1)
        for of_a in ((m * k, k, 1), (m * k + 4, k, 1), (m * k, 1, m), (k, batch * k, 1), (0, k, 1)):
            for of_b in ((k * n, n, 1), (k * n + 1, 1, k), (0, n, 1), (0, 1, k)):
                x, y = (np.broadcast_to(one[:1], one.shape) if strides[0] == 0 else one for one, strides in ((a, of_a), (b, of_b)))
                calls.clear()
                same(lab.bmm(strided(x, of_a), strided(y, of_b)), x.astype(float) @ y)
                assert len(calls) == 1, (of_a, of_b)
    # Of more dimensions than operators take, each outer product begins where its own operands do.
    a, b = numbers(2, 3, 5, 9), numbers(2, 3, 9, 7)
    x, y, c = (strided(one, strides) for one, strides in (
        (a, (200, 50, 9, 1)), (b, (500, 70, 7, 1)), (np.zeros((2, 3, 5, 7), np.float32), (300, 40, 7, 1))))
    calls.clear()
    same(lab._enqueue(x, y, c), a @ b)
    assert len(calls) == 2 and c.shape == (2, 3, 5, 7)
    one = strided(numbers(3, 5, 9), (90, 18, 2))
    same(lab.bmm(one, made(3, 9, 7)), one.value @ numbers(3, 9, 7))


def test_linear_takes_rows_of_every_batch_at_once(lab, calls):
    w, bias = numbers(7, 9), numbers(7, seed=1)
    for shape in ((9,), (5, 9), (2, 5, 9), (2, 3, 5, 9), (0, 9), (2, 0, 9)):
        x = numbers(*shape)
        calls.clear()
        same(lab.linear(Tensor(x), Tensor(w), Tensor(bias)), x @ w.T + bias)
        assert len(calls) == int(x.size > 0) and lab.linear.fake(Tensor(x), Tensor(w)).shape == (*shape[:-1], 7)
    x = strided(numbers(2, 5, 9), (60, 10, 1))
    same(lab.linear(x, Tensor(w)), x.value @ w.T)


MATMULS = [((5, 9), (9, 7)), ((4, 5, 9), (9, 7)), ((2, 3, 5, 9), (3, 9, 7)), ((5, 9), (4, 9, 7)), ((9,), (9, 7)), ((5, 9), (9,)), ((9,), (9,)),
           ((2, 5, 9), (9,)),
           ((9,), (2, 9, 7)), ((2, 1, 5, 9), (1, 3, 9, 7))]


def test_matmul_broadcasts_as_numpy_does(lab):
    for a, b in MATMULS:
        x, y = numbers(*a), numbers(*b, seed=1)
        same(lab.matmul(Tensor(x), Tensor(y)), x @ y)
        if len(b) > 1:
            bias = numbers(7, seed=2)
            same(lab.matmul(Tensor(x), Tensor(y), bias=Tensor(bias)), x @ y + bias)
            same(lab.matmul(Tensor(x), Tensor(y), activation="relu"), np.maximum(x @ y, 0))
            same(lab.matmul(Tensor(x), Tensor(y), activation="identity"), x @ y)
            for form in ("gelu", "gelu_tanh"):
                want = torch_surface.gelu(Tensor(x @ y + bias), "tanh" if form == "gelu_tanh" else "none").value
                np.testing.assert_allclose(lab.matmul(Tensor(x), Tensor(y), Tensor(bias), form).value, want, rtol=1e-5, atol=1e-5)


# ---- Rules ----


def slopes(function, at, weights):
    """The gradient of sum(weights * function(at)), by differences that are exact for what is linear in each element."""
    found = np.zeros(at.shape)
    for place in np.ndindex(*at.shape):
        up, down = (at.astype(np.float64) for _ in range(2))
        up[place] += 1e-3
        down[place] -= 1e-3
        found[place] = ((function(up) - function(down)) * weights).sum() / 2e-3
    return found


def activated(x, activation):
    if activation == "relu":
        return np.maximum(x, 0)
    if activation in ("gelu", "gelu_tanh"):
        gate = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)) if activation == "gelu_tanh" else torch_surface.ERF(x / math.sqrt(2))
        return x * (1 + gate) / 2
    return x


RULES = {
    "mm": (lambda a, b: a @ b, [(3, 4), (4, 2)], ()), "bmm": (lambda a, b: a @ b, [(2, 3, 4), (2, 4, 2)], ()),
    "addmm": (lambda c, a, b, beta, alpha: beta * c + alpha * (a @ b), [(3, 2), (3, 4), (4, 2)], (0.5, 2.0)),
    "addmm of a row": (lambda c, a, b, beta, alpha: beta * c + alpha * (a @ b), [(2,), (3, 4), (4, 2)], (1.0, 1.0)),
    "addmm of a column": (lambda c, a, b, beta, alpha: beta * c + alpha * (a @ b), [(3, 1), (3, 4), (4, 2)], (3.0, 0.5)),
    **{f"linear {form}": (lambda x, w, bias, form: activated(x @ w.T + bias, form), [(2, 3, 4), (5, 4), (5,)], (form,))
       for form in (None, "relu", "gelu", "gelu_tanh")},
    "linear of a vector": (lambda x, w, bias, form: activated(x @ w.T + bias, form), [(4,), (5, 4), (5,)], ("relu",)),
}


@pytest.mark.parametrize("name", RULES)
def test_gradients_by_the_operators_rules(lab, name):
    """Of every operand alone and all together; those that need none get none."""
    function, shapes, rest = RULES[name]
    operator = getattr(lab, name.split()[0])
    inputs = [numbers(*shape, seed=at) / 2 + 0.125 for at, shape in enumerate(shapes)]
    given = *(Tensor(x) for x in inputs), *rest
    output = operator(*given)
    weights = numbers(*output.shape, seed=9)
    want = [slopes(lambda x, at=at: function(*inputs[:at], x, *inputs[at + 1:], *rest), inputs[at], weights) for at in range(len(inputs))]
    for needed in [(True,) * len(inputs), *(tuple(i == at for i in range(len(inputs))) for at in range(len(inputs)))]:
        got = operator.gradients(given, output, Tensor(weights), (*needed, *(False for _ in rest)))
        assert len(got) == len(given)
        for found, wanted, is_needed in itertools.zip_longest(got, want, needed, fillvalue=None):
            if not is_needed:
                assert found is None
            else:
                np.testing.assert_allclose(found.value, wanted, rtol=1e-3, atol=1e-3)
    if name.startswith("linear"):
        x, w = given[:2]
        assert operator.gradients((x, w, None, None), lab.linear(x, w), Tensor(weights), (True, True, False, False))[2:] == (None, None)


def test_operators_of_batches_of_calls(lab, calls):
    """The rule of vmap: one call, whichever operand is batched and in whichever dimension."""
    info = SimpleNamespace(batch_size=3)
    a, b = numbers(3, 5, 9), numbers(3, 9, 7, seed=1)
    for at_a, at_b in ((0, 0), (1, 2), (None, 1), (2, None)):
        x, y = (one[0] if at is None else np.moveaxis(one, 0, at) for one, at in ((a, at_a), (b, at_b)))
        want = (a[:1] if at_a is None else a) @ (b[:1] if at_b is None else b)
        got, at = lab.mm.vmap(info, (at_a, at_b), Tensor(x), Tensor(y))
        assert at == 0 and len(calls) == 1
        same(got, want)
        calls.clear()
    a, b = numbers(3, 2, 5, 9), numbers(3, 2, 9, 7, seed=1)
    for at_a, at_b in ((0, 0), (1, None), (None, 3)):
        x, y = (one[0] if at is None else np.moveaxis(one, 0, at) for one, at in ((a, at_a), (b, at_b)))
        got, at = lab.bmm.vmap(info, (at_a, at_b), Tensor(x), Tensor(y))
        assert at == 0
        same(got, (a[:1] if at_a is None else a) @ (b[:1] if at_b is None else b))


def test_operators_shapes_without_computing(lab, calls):
    a, b, c = made(5, 9), made(9, 7), made(7)
    assert lab.mm.fake(a, b).shape == lab.addmm.fake(c, a, b).shape == (5, 7) and lab.bmm.fake(made(2, 5, 9), made(2, 9, 7)).shape == (2, 5, 7)
    assert lab.packed_linear.fake(made(2, 5, 9), made(7, 9), None, made(3), 7).shape == (2, 5, 7) and not calls
    assert {one.device_types for one in (lab.mm, lab.bmm, lab.addmm, lab.linear, lab.packed_linear)} == {"cpu"}
    assert [one.name for one in (lab.mm, lab.bmm, lab.addmm, lab.linear, lab.packed_linear)] == [
        "lab::mm", "lab::bmm", "lab::addmm", "lab::linear", "lab::packed_linear"]


def test_refusals(lab):
    a, b, wide = made(5, 9), made(9, 7), Tensor(np.ones((9, 7)))
    for operator, given in (
        (lab.mm, (a, wide)), (lab.mm, (wide, b)), (lab.bmm, (made(2, 5, 9), Tensor(np.ones((2, 9, 7))))), (lab.addmm, (Tensor(np.ones(7)), a, b)),
        (lab.linear, (a, made(7, 9), Tensor(np.ones(7)))), (lab.linear, (a, Tensor(np.ones((7, 9))))),
    ):
        for call in (operator, operator.fake):
            with pytest.raises(TypeError, match="must be float32, not torch.float64"):
                call(*given)
    with pytest.raises(TypeError, match="float32"):
        lab.packed_linear(a, made(7, 9), Tensor(np.ones(7)), made(3), 7)
    for operator, given, told in (
        (lab.mm, (made(2, 5, 9), b), "matrices"), (lab.mm, (a, made(2, 9, 7)), "matrices"), (lab.mm, (a, made(8, 7)), "do not give"),
        (lab.bmm, (made(2, 5, 9), made(3, 9, 7)), "as many"), (lab.bmm, (a, b), "as many"), (lab.addmm, (made(7), made(2, 5, 9), b), "matrices"),
        (lab.linear, (a, made(7, 8)), r"\[n, k\]"), (lab.linear, (made(5, 8), made(7, 9)), r"\[n, k\]"), (lab.linear, (a, made(7)), r"\[n, k\]"),
        (lab.linear, (a, made(7, 9), made(6)), "bias"),
        (lab.linear, (a, made(7, 9), None, "tanh"), "activation 'tanh', and there are identity, relu, gelu, gelu_tanh"),
    ):
        with pytest.raises(ValueError, match=told):
            operator(*given)
    for operator, given in ((lab.mm, (a, made(8, 7))), (lab.mm, (made(2, 5, 9), b)), (lab.bmm, (made(2, 5, 9), made(3, 9, 7))),
                            (lab.bmm, (made(2, 5, 9), made(2, 8, 7))),
                            (lab.addmm, (made(7), a, made(8, 7))), (lab.linear, (a, made(7, 8)))):
        with pytest.raises(RuntimeError, match="shapes do not fit"):
            operator.fake(*given)


# ---- What only a GPU shows ----


def test_calls_go_to_the_tensors_device_and_its_stream(lab, calls):
    a, b = made(5, 9, on=GPU), made(9, 7, on=GPU)
    same(lab.mm(a, b), a.value @ b.value)
    assert (calls[0].current, calls[0].stream, lab.torch.cuda.current) == (1, 1001, 0)
    lab.torch.cuda.current = 1
    lab.mm(a, b)
    lab.mm(made(5, 9), made(9, 7))
    assert [(call.current, call.stream) for call in calls[1:]] == [(1, 1001), (1, None)]
    assert all(call.workspace % 256 == 0 and call.bytes == 1024 and call.problem.flags == 2 for call in calls)
    lab.mm(made(5, 2), made(2, 7))
    assert (calls[-1].workspace, calls[-1].bytes) == (None, 0)  # the fallback needs none


def test_a_thread_that_had_not_met_the_device_meets_it(lab, calls, monkeypatch):
    """The call is made once more; elsewhere, and where it helps nothing, the error is told."""
    run, choose, missing = lab._c.run, lab._c.choose, [True]

    def lost(*arguments):
        if missing[0]:
            missing[0] = missing[0] == "ever" and "ever"
            return -23
        return run(*arguments)

    monkeypatch.setattr(lab._c, "run", lost)
    a, b = made(5, 9, on=GPU), made(9, 7, on=GPU)
    same(lab.mm(a, b), a.value @ b.value)
    assert not lab.torch.cuda.met  # it was there the second time
    for missing[0], on, met in (("ever", GPU, [1]), ("ever", torch_surface.CPU, [])):
        lab.torch.cuda.met.clear()
        with pytest.raises(lab._c.Error, match="5 x 7 x 9: no device is current") as refused:
            lab.mm(made(5, 9, on=on), made(9, 7, on=on))
        assert lab.torch.cuda.met == met and refused.value.code == -23
    monkeypatch.setattr(lab._c, "run", run)
    lost_once = [True]

    def chosen(*arguments, **named):
        if lost_once and lost_once.pop():
            raise lab._c.Error(-23)
        return choose(*arguments, **named)

    monkeypatch.setattr(lab._c, "choose", chosen)
    lab._plans.clear()
    lab.torch.cuda.met.clear()
    same(lab.mm(a, b), a.value @ b.value)
    assert lab.torch.cuda.met == [1]
    lost_once.append(True)
    lab._plans.clear()
    with pytest.raises(lab._c.Error, match="no device"):
        lab.mm(made(5, 9), made(9, 7))


def test_plans_are_of_calls_that_are_alike(lab):
    """Shapes, strides, scalars, bias, activation, device and packed words of each have a plan of their own; addresses have not."""
    a, b, bias = numbers(4, 4), numbers(4, 4, seed=1), numbers(4, seed=2)
    want = a @ b
    turned = (Tensor(a.T.copy()).t(), Tensor(b.T.copy()).t())
    for _ in range(2):
        same(lab.mm(Tensor(a.copy()), Tensor(b.copy())), want)
        same(lab.mm(turned[0], Tensor(b)), want)
        same(lab.mm(Tensor(a), turned[1]), want)
        same(lab.mm(strided(a, (6, 1)), strided(b, (7, 1))), want)
        same(lab.addmm(Tensor(a), Tensor(a), Tensor(b), 2.0, 1.0), want + 2 * a)
        same(lab.addmm(Tensor(a), Tensor(a), Tensor(b), 2.0, 3.0), 3 * want + 2 * a)
        same(lab.addmm(Tensor(a), Tensor(a), Tensor(b), 1.0, 3.0), 3 * want + a)
        same(lab.linear(Tensor(a), turned[1].t(), Tensor(bias)), want + bias)
        same(lab.linear(Tensor(a), turned[1].t()), want)
        same(lab.linear(Tensor(a), turned[1].t(), Tensor(bias), "relu"), np.maximum(want + bias, 0))
        same(lab.mm(made(4, 4, on=GPU), made(4, 4, on=GPU)), numbers(4, 4) @ numbers(4, 4))
    assert len(lab._plans) == 10  # the Linear layer without a bias is a product that was there


# ---- Packed weights ----


def test_packed_layers(lab, calls):
    for weight in (numbers(7, 9), numbers(9, 7).T):
        for bias in (None, numbers(7, seed=3)):
            layer = lab.PackedLinear(torch_surface.Linear(Tensor(weight), None if bias is None else strided(bias, (2,))))
            calls.clear()
            for shape in ((5, 9), (1, 9), (2, 3, 9), (9,)):
                x = numbers(*shape, seed=4)
                same(layer(Tensor(x)), x @ weight.T + (0 if bias is None else bias))
            assert len(calls) == 4 and all(call.packed.operand == ord("b") and call.bytes == 512 and (call.packed.rows, call.packed.columns) == (9, 7)
                                           for call in calls)
            calls.clear()
            same(lab.linear(Tensor(numbers(5, 9, seed=4)), layer.weight, layer.bias), numbers(5, 9, seed=4) @ weight.T + (0 if bias is None else bias))
            assert [(call.packed, call.bytes) for call in calls] == [(None, 1024)]  # a plan of its own
            layer(Tensor(numbers(5, 9, seed=4)))
            assert calls[1].bytes == 512 and layer.memory.data_ptr() % 256 == 0 and "in_features=9, out_features=7" in layer.extra_repr()
    away = Tensor(np.empty(layer.memory.numel() + 1, np.uint8)[1:])
    while away.data_ptr() % 256 == 0:
        away = Tensor(away.memory[1:])
    away.memory[:layer.memory.numel()] = layer.memory.memory[:len(away.memory)]
    x = numbers(5, 9)
    same(lab.packed_linear(Tensor(x), layer.weight, layer.bias, away, layer.format, "relu"), np.maximum(x @ layer.weight.value.T + layer.bias.value, 0))
    assert calls[-1].packed.memory % 256 == 0
    same(lab.PackedLinear(torch_surface.Linear(Tensor(numbers(7, 9), negative=True)))(Tensor(x)), -(x @ numbers(7, 9).T))
    with pytest.raises(RuntimeError, match="stays where it is"):
        layer._apply(lambda w: Tensor(w.memory.astype(np.float64)))
    with pytest.raises(RuntimeError, match="stays where it is"):
        layer._apply(lambda w: Tensor(w.memory, GPU))
    assert layer._apply(lambda w: w) is layer
    with pytest.raises(TypeError, match="float32"):
        lab.PackedLinear(torch_surface.Linear(Tensor(np.ones((7, 9)))))


def test_which_layers_are_packed(lab, monkeypatch):
    whole = torch_surface.Module()
    whole.first, whole.inside = torch_surface.Linear(made(7, 9)), torch_surface.Module()
    whole.inside.small, whole.inside.wide = torch_surface.Linear(made(2, 3)), torch_surface.Linear(Tensor(np.ones((7, 9))))
    whole.inside.away = torch_surface.Linear(made(7, 9, on=GPU))
    assert lab.pack_linear(whole, least=7) is whole
    kinds = [type(one).__name__ for one in (whole.first, whole.inside.small, whole.inside.wide, whole.inside.away)]
    assert kinds == ["PackedLinear", "Linear", "Linear", "Linear"]
    assert type(lab.pack_linear(torch_surface.Linear(made(2, 3)), least=6)).__name__ == "PackedLinear"

    def refused(code):
        def packed(*_):
            raise lab._c.Error(code)
        return packed

    monkeypatch.setattr(lab, "_packed", refused(-21))
    layer = torch_surface.Linear(made(7, 9))
    assert lab.pack_linear(layer) is layer
    monkeypatch.setattr(lab, "_packed", refused(-22))
    with pytest.raises(lab._c.Error):
        lab.pack_linear(layer)


# ---- A program's own products ----


def dispatched(mode, name, *args, into=False, **kwargs):
    function = getattr(mode.lab.torch.ops.aten, name)
    return mode.__torch_dispatch__(Recorded(function.out if into else function.default), (), args, kwargs)


class Recorded(str):
    """A function of aten, which says that it was called itself."""

    def __call__(self, *args, **kwargs):
        return "aten's", args, kwargs


@pytest.fixture
def mode(lab):
    found = lab.taking()
    found.lab = lab
    return found


def test_what_is_taken(lab, mode):
    a, b, c = made(5, 9), made(9, 7), made(5, 7, seed=2)
    batch = made(2, 5, 9), made(2, 9, 7), made(2, 5, 7, seed=2)
    with mode as taken:
        same(dispatched(mode, "mm", a, b), a.value @ b.value)
        same(dispatched(mode, "bmm", *batch[:2]), batch[0].value @ batch[1].value)
        for beta, alpha in ((1, 1), (0.5, 2), (0, 3)):
            same(dispatched(mode, "addmm", c, a, b, beta=beta, alpha=alpha), alpha * (a.value @ b.value) + beta * c.value)
            same(dispatched(mode, "baddbmm", batch[2], *batch[:2], beta=beta, alpha=alpha), alpha * (batch[0].value @ batch[1].value) + beta * batch[2].value)
        for x in (made(9), a, made(2, 5, 9), made(2, 3, 5, 9)):
            same(dispatched(mode, "linear", x, made(7, 9)), x.value @ numbers(7, 9).T)
            same(dispatched(mode, "linear", x, made(7, 9), made(7)), x.value @ numbers(7, 9).T + numbers(7))
        for name, given, want in (("mm", (a, b), a.value @ b.value), ("bmm", batch[:2], batch[0].value @ batch[1].value),
                                  ("addmm", (c, a, b), a.value @ b.value + c.value), ("baddbmm", (batch[2], *batch[:2]),
                                      batch[0].value @ batch[1].value + batch[2].value)):
            out = Tensor(np.zeros(want.shape, np.float32).swapaxes(0, 1).copy().swapaxes(0, 1))
            assert dispatched(mode, name, *given, out=out, into=True) is out
            same(out, want)
        small = Tensor(np.zeros(3, np.float32))
        assert dispatched(mode, "mm", a, b, out=small, into=True) is small and small.shape == (5, 7)
        parameter = Parameter(b.memory)
        same(dispatched(mode, "mm", a, parameter), a.value @ b.value)
    assert dict(taken.taken) == {"mm": 4, "bmm": 2, "addmm": 4, "baddbmm": 4, "linear": 8} and not taken.passed
    assert taken.kernels == {"reference": 22}
    assert mode.__torch_dispatch__(lab.torch.ops.aten.matmul.default, (), (a, b)) == ("decomposed", (a, b))
    assert str(taken).splitlines()[:2] == ["     4 taken      addmm", "     4 taken      baddbmm"] and "    22 by         reference" in str(taken)


def test_what_is_passed_on_and_why(lab, mode):
    """Each operand's type, device and layout is looked at, and what the library predicts."""
    a, b, c, wide = made(5, 9), made(9, 7), made(5, 7), Tensor(np.ones((9, 7)))
    sparse = made(9, 7)
    sparse.layout = "torch.sparse_coo"
    with mode as taken:
        def passed(name, *given, **how):
            found = dispatched(mode, name, *given, **how)
            assert found[0] == "aten's" and found[1] == given
            return taken.passed.most_common()

        for name, given, why in (
            ("mm", (a, wide), "float64"), ("mm", (Tensor(np.ones((5, 9))), b), "float64"), ("addmm", (Tensor(np.ones((5, 7))), a, b), "float64"),
            ("linear", (a, made(7, 9), Tensor(np.ones(7))), "float64"), ("mm", (a, made(9, 7, on=GPU)), "on cuda"),
            ("bmm", (made(2, 5, 9, on=GPU), made(2, 9, 7)), "on cuda"),
            ("mm", (a, sparse), "torch.sparse_coo"), ("mm", (made(0, 9), b), "empty"), ("mm", (a, made(9, 0)), "empty"),
            ("mm", (made(5, 2), made(2, 7)), "no kernel for matrix units serves it"), ("baddbmm", (made(2, 5, 7), made(2, 5, 2), made(2, 2, 7)),
                "no kernel for matrix units serves it"),
        ):
            before = taken.passed[name, why]
            passed(name, *given)
            assert taken.passed[name, why] == before + 1, (name, why)
        out = Tensor(np.zeros((5, 7)))
        assert dispatched(mode, "mm", a, b, out=out, into=True)[2] == {"out": out}
        assert dispatched(mode, "mm", a, wide, out=c, into=True)[2] == {"out": c} and taken.passed["mm", "float64"] == 3
        assert dispatched(mode, "addmm", c, a, wide, beta=2, alpha=3)[2] == {"beta": 2, "alpha": 3}
        assert mode.__torch_dispatch__(Recorded("aten.linear"), (), (a, made(2, 7, 9)))[0] == "aten's"
        lab.torch.backends.cuda.matmul.allow_tf32 = True
        passed("mm", a, b)
        assert taken.passed["mm", "TF32 is allowed"] == 1 and not taken.taken
        assert mode.__torch_dispatch__(Recorded("aten.other"), (), (a,), {"x": 1}) == ("aten's", (a,), {"x": 1})
    assert "passed on  mm: TF32 is allowed" in str(taken) and not taken.kernels


def test_what_is_predicted_to_be_slower(lab, monkeypatch):
    choose = lab._c.choose
    a, b = made(5, 9), made(9, 7)
    for sgemm, always, is_taken in ((0.5, False, False), (1.0, False, False), (2.0, False, True), (0.0, False, True), (0.5, True, True)):
        monkeypatch.setattr(lab._c, "choose", lambda *x, sgemm=sgemm, **y: choose(*x, **y)._replace(seconds=1.0, sgemm_seconds=sgemm))
        mode = lab.taking(always)
        mode.lab = lab
        for _ in range(2):
            dispatched(mode, "mm", a, b)
        assert dict(mode.taken.taken) == ({"mm": 2} if is_taken else {}) and sum(mode.taken.kernels.values()) == 2 * is_taken
        assert dict(mode.taken.passed) == ({} if is_taken else {("mm", "predicted to be slower"): 2})
    mode = lab.taking(always=True)
    mode.lab = lab
    monkeypatch.setattr(lab._c, "choose", choose)
    dispatched(mode, "mm", made(5, 2), made(2, 7))
    assert mode.taken.kernels == {"reference_fallback": 1}

    def refused(*_, **__):
        raise lab._c.Error(-20)

    monkeypatch.setattr(lab._c, "choose", refused)
    mode = lab.taking()
    mode.lab = lab
    assert dispatched(mode, "mm", a, b)[0] == "aten's"
    assert dict(mode.taken.passed) == {("mm", "the library: lab: too large (-20)"): 1}


def test_what_is_asked_of_the_library_before_a_product_is_taken(lab, monkeypatch):
    """Its sizes, layouts and strides; once for products that are alike."""
    asked, choose = [], lab._c.choose
    monkeypatch.setattr(lab._c, "choose", lambda problem, *rest, **named: asked.append(problem.bias) or choose(problem, *rest, **named))
    lab.linear(made(5, 9), made(7, 9), made(7))
    lab.linear(made(5, 9), made(7, 9))
    assert [bias is None for bias in asked] == [False, True]
    asked.clear()

    def chosen(problem, index, **rest):
        asked.append((problem.m, problem.n, problem.k, problem.transpose_a, problem.transpose_b, problem.lda, problem.ldb, problem.ldc, problem.batch,
                      problem.stride_a, problem.stride_b, problem.stride_c, index))
        return choose(problem, index, **rest)

    monkeypatch.setattr(lab._c, "choose", chosen)
    taker = lab._Taker(lab.Taken(), False)
    for _ in range(2):
        assert taker.why_not(strided(numbers(5, 9), (11, 1)), strided(numbers(9, 7), (1, 10))) is None
        assert taker.why_not(strided(numbers(3, 5, 9), (70, 1, 6)), strided(numbers(3, 9, 7), (80, 8, 1))) is None
        assert taker.why_not(strided(numbers(5, 9), (1, 5)), made(9, 7)) is None
    assert asked == [(5, 7, 9, 0, 1, 11, 10, 7, 0, 0, 0, 35, -1), (5, 7, 9, 1, 0, 6, 8, 7, 3, 70, 80, 35, -1), (5, 7, 9, 1, 0, 5, 7, 7, 0, 0, 0, 35, -1)]
    taker.why_not(made(5, 9), strided(numbers(9, 7), (1, 10)))
    assert asked[-1][5] == 9 and len(asked) == 4
    spread = Tensor(numbers(2, 3, 9, 5).swapaxes(2, 3))
    taker.linear(lab._Eager, spread, made(7, 9))
    assert asked[-2][:5] == (5, 7, 9, 1, 1) and asked[-2][8] == 0  # of one of its matrices
    monkeypatch.setattr(lab, "DEVICE", "cuda")
    assert taker.why_not(made(5, 9, on=GPU), made(9, 7, on=device("cuda", 2))) == "on two devices"
    assert taker.why_not(made(5, 9, on=GPU), made(9, 7, on=GPU)) is None and asked[-1][-1] == 1
    assert taker.why_not(made(5, 9, on=device("cuda", 2)), made(9, 7, on=device("cuda", 2))) is None and asked[-1][-1] == 2


def test_what_a_compiler_puts_in_the_place_of_products(lab):
    taken = lab.Taken()
    table = lab.decompositions(taken, always=True)
    a, b, c = made(5, 9), made(9, 7), made(2, 5, 7)
    x, y = made(2, 5, 9), made(2, 9, 7)
    aten = lab.torch.ops.aten
    assert set(table) == {aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default}
    same(table[aten.mm.default](a, b), a.value @ b.value)
    same(table[aten.addmm.default](made(7), a, b, beta=2, alpha=3), 3 * (a.value @ b.value) + 2 * numbers(7))
    for beta, alpha in ((1, 1), (2, 3), (0, 2)):
        same(table[aten.baddbmm.default](c, x, y, beta=beta, alpha=alpha), alpha * (x.value @ y.value) + beta * c.value)
    same(table[aten.baddbmm.default](Tensor(np.full((2, 5, 7), np.nan, np.float32)), x, y, beta=0), x.value @ y.value)
    assert table[aten.mm.default](made(0, 9), b) is NotImplemented and taken.passed == {("mm", "empty"): 1}
    assert dict(taken.taken) == {"mm": 1, "addmm": 1, "baddbmm": 4}
