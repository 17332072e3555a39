"""Stands in for torch, as far as a library's torch module asks it for something: tensors of NumPy's memory with shapes, strides, a sign that is not in memory,
a type and a device; operators that keep their rules; the current device and stream. Tensors of a `cuda` device lie on the host, too.

Nothing is differentiated or traced: tests call the rules that operators were given.
"""

from __future__ import annotations

import contextlib
import math
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided


class Size(tuple):
    def numel(self) -> int:
        return math.prod(self)


class Dtype:
    def __init__(self, name: str, kind: type):
        self.name, self.kind = name, kind

    def __repr__(self) -> str:
        return f"torch.{self.name}"


float32, float64, uint8 = Dtype("float32", np.float32), Dtype("float64", np.float64), Dtype("uint8", np.uint8)
OF = {np.dtype(one.kind): one for one in (float32, float64, uint8)}


class device:
    def __init__(self, type: str, index: int | None = None):
        self.type, self.index = type, index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))


CPU = device("cpu")


class Tensor:
    """A view of an array; where `negative` is set, its values are those of the memory with the other sign."""

    layout = "torch.strided"

    def __init__(self, memory: np.ndarray, on: device = CPU, negative: bool = False):
        self.memory, self.device, self.negative = memory, on, negative

    def _with(self, memory: np.ndarray) -> Tensor:
        return Tensor(memory, self.device, self.negative)

    @property
    def value(self) -> np.ndarray:
        return -self.memory if self.negative else self.memory

    @property
    def shape(self) -> Size:
        return Size(self.memory.shape)

    @property
    def dtype(self) -> Dtype:
        return OF[self.memory.dtype]

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def stride(self, at: int | None = None) -> Any:
        found = tuple(one // self.memory.itemsize for one in self.memory.strides)
        return found if at is None else found[at]

    def data_ptr(self) -> int:
        return self.memory.__array_interface__["data"][0]

    def dim(self) -> int:
        return self.memory.ndim

    def numel(self) -> int:
        return self.memory.size

    def is_neg(self) -> bool:
        return self.negative

    def resolve_neg(self) -> Tensor:
        return Tensor(np.array(self.value), self.device) if self.negative else self

    def is_contiguous(self) -> bool:
        return self.memory.flags.c_contiguous

    def contiguous(self) -> Tensor:
        return self if self.is_contiguous() else Tensor(np.array(self.value, order="C"), self.device)

    def detach(self) -> Tensor:
        return self._with(self.memory)

    def new_empty(self, shape: tuple[int, ...]) -> Tensor:
        return Tensor(np.full(shape, np.nan, self.memory.dtype), self.device)

    def copy_(self, other: Tensor) -> Tensor:
        self.memory[...] = -other.value if self.negative else other.value
        return self

    def resize_(self, shape: tuple[int, ...]) -> Tensor:
        self.memory = np.empty(shape, self.memory.dtype)
        return self

    def t(self) -> Tensor:
        return self._with(self.memory.T)

    @property
    def mT(self) -> Tensor:  # noqa: N802
        return self._with(self.memory.swapaxes(-1, -2))

    def expand(self, *shape: int) -> Tensor:
        return self._with(np.broadcast_to(self.memory, shape))

    def movedim(self, source: int, target: int) -> Tensor:
        return self._with(np.moveaxis(self.memory, source, target))

    def reshape(self, *shape: Any) -> Tensor:
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        with contextlib.suppress(RuntimeError):
            return self.view(*shape)
        return Tensor(np.array(self.value).reshape(shape), self.device)

    def view(self, *shape: Any) -> Tensor:
        """Raises:
            RuntimeError: the memory does not lie so.
        """
        found = self.memory.reshape(shape)
        if found.size and not np.shares_memory(found, self.memory):
            raise RuntimeError("view size is not compatible")
        return self._with(found)

    def flatten(self, first: int, last: int) -> Tensor:
        last %= self.dim()
        return self.reshape(*self.shape[:first], math.prod(self.shape[first:last + 1]), *self.shape[last + 1:])

    def unflatten(self, at: int, shape: tuple[int, ...]) -> Tensor:
        return self.reshape(*self.shape[:at], *shape, *self.shape[at + 1:])

    def squeeze(self, at: int) -> Tensor:
        return self._with(self.memory.squeeze(at))

    def sum(self, at: int) -> Tensor:
        return Tensor(self.value.sum(at), self.device)

    def sum_to_size(self, shape: tuple[int, ...]) -> Tensor:
        extra = self.dim() - len(shape)
        found = self.value.sum(tuple(range(extra)))
        return Tensor(found.sum(tuple(i for i, one in enumerate(shape) if one == 1), keepdims=True), self.device)

    def __getitem__(self, at: Any) -> Tensor:
        return self._with(self.memory[at])

    def _other(self, other: Any) -> Any:
        return other.value if isinstance(other, Tensor) else np.float32(other) if isinstance(other, float) else other

    def __mul__(self, other: Any) -> Tensor:
        return Tensor(self.value * self._other(other), self.device)

    def __add__(self, other: Any) -> Tensor:
        return Tensor(self.value + self._other(other), self.device)

    def __gt__(self, other: Any) -> Tensor:
        return Tensor(self.value > self._other(other), self.device)


class Parameter(Tensor):
    pass


class Operator:
    """What torch.library.custom_op makes of a function, with the rules that it was given."""

    def __init__(self, function: Any, name: str, device_types: str):
        self.function, self.name, self.device_types = function, name, device_types

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def register_fake(self, rule: Any) -> Any:
        self.fake = rule
        return rule

    def register_vmap(self, rule: Any) -> Any:
        self.vmap = rule
        return rule

    def register_autograd(self, backward: Any, *, setup_context: Any) -> None:
        self.backward, self.setup_context = backward, setup_context

    def gradients(self, inputs: tuple, output: Tensor, grad: Tensor, needed: tuple[bool, ...]) -> tuple:
        """By its rules, of inputs that need them."""
        context = SimpleNamespace(needs_input_grad=needed)
        context.save_for_backward = lambda *kept: setattr(context, "saved_tensors", kept)
        self.setup_context(context, inputs, output)
        return self.backward(context, grad)


class Module:
    def __init__(self) -> None:
        self.__dict__["children"] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module):
            self.children[name] = value
        object.__setattr__(self, name, value)

    def register_buffer(self, name: str, value: Any, persistent: bool = True) -> None:
        setattr(self, name, value)

    def named_children(self) -> list[tuple[str, Module]]:
        return list(self.children.items())

    def _apply(self, fn: Any, recurse: bool = True) -> Module:
        return self

    def __call__(self, x: Tensor) -> Tensor:
        return self.forward(x)


class Linear(Module):
    def __init__(self, weight: Tensor, bias: Tensor | None = None):
        super().__init__()
        self.weight, self.bias = weight, bias
        self.out_features, self.in_features = weight.shape


class TorchDispatchMode:
    def __enter__(self) -> TorchDispatchMode:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


ERF = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    v = x.value.astype(np.float64)
    gate = np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)) if approximate == "tanh" else ERF(v / math.sqrt(2))
    return Tensor((v * (1 + gate) / 2).astype(x.memory.dtype), x.device)


def gelu_backward(grad: Tensor, x: Tensor, *, approximate: str) -> Tensor:
    """By differences."""
    apart = 1e-4
    up, down = (gelu(Tensor(x.value.astype(np.float64) + step), approximate).value for step in (apart, -apart))
    return Tensor((grad.value * (up - down) / (2 * apart)).astype(np.float32), grad.device)


class Composite:
    """A function of aten that is made of others."""

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        return "decomposed", args


class Cuda:
    """The current device, and streams whose addresses are 1000 and the device's number."""

    def __init__(self) -> None:
        self.current, self.met = 0, []

    def current_device(self) -> int:
        return self.current

    @contextlib.contextmanager
    def device(self, index: int) -> Any:
        before, self.current = self.current, index
        yield
        self.current = before

    def current_stream(self, index: int) -> Any:
        return SimpleNamespace(cuda_stream=1000 + index, query=lambda: self.met.append(index))


def _check(right: bool, told: Any) -> None:
    if not right:
        raise RuntimeError(told())


def empty(shape: Any, *, dtype: Dtype, device: Any = CPU) -> Tensor:
    """Bytes begin one past a workspace's alignment, as an allocator of the host may have them."""
    if dtype is uint8:
        count = shape if isinstance(shape, int) else shape[0]
        memory = np.zeros(count + 512, np.uint8)
        at = -memory.__array_interface__["data"][0] % 256 + 1
        return Tensor(memory[at:at + count], device)
    return Tensor(np.full(shape, np.nan, dtype.kind), device)


def modules() -> dict[str, ModuleType]:
    """For sys.modules."""
    functions = {name: SimpleNamespace(default=f"aten.{name}", out=f"aten.{name}.out") for name in ("mm", "bmm", "addmm", "baddbmm", "linear")}
    matmul = SimpleNamespace(default=Composite())
    parts: dict[str, dict[str, Any]] = {
        "torch": {
            "Tensor": Tensor, "float32": float32, "float64": float64, "uint8": uint8, "strided": "torch.strided", "device": device, "cuda": Cuda(),
            "empty": empty,
            "_check": _check, "broadcast_shapes": lambda *shapes: Size(np.broadcast_shapes(*shapes)),
            "relu": lambda x: Tensor(np.maximum(x.value, 0), x.device),
            "library": SimpleNamespace(custom_op=lambda name, *, mutates_args, device_types: lambda function: Operator(function, name, device_types)),
            "ops": SimpleNamespace(aten=SimpleNamespace(matmul=matmul, gelu_backward=gelu_backward, **functions)),
            "nn": SimpleNamespace(Module=Module, Linear=Linear, Parameter=Parameter, functional=SimpleNamespace(gelu=gelu)),
            "backends": SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False))),
        },
        "torch._functorch": {}, "torch._functorch.config": {}, "torch.utils": {}, "torch.utils._python_dispatch": {"TorchDispatchMode": TorchDispatchMode},
    }
    found = {}
    for name, inside in parts.items():
        found[name] = ModuleType(name)
        found[name].__dict__.update(inside)
        if (parent := name.rpartition(".")[0]) in found:
            setattr(found[parent], name.rpartition(".")[2], found[name])
    return found


def loaded(path: Any, name: str) -> ModuleType:
    """A file of Python whose `import torch` is this one."""
    kept = {other: module for other, module in sys.modules.items() if other.partition(".")[0] == "torch"}
    for other in kept:
        del sys.modules[other]
    sys.modules.update(standing := modules())
    try:
        module = ModuleType(name)
        exec(compile(path.read_text(), str(path), "exec"), module.__dict__)  # noqa: S102
        return module
    finally:
        for other in standing:
            del sys.modules[other]
        sys.modules.update(kept)


def strided(values: np.ndarray, strides: tuple[int, ...], on: device = CPU, negative: bool = False) -> Tensor:
    """A tensor of these values with these strides in elements, one element into memory that is NaN elsewhere."""
    size = 2 + sum((extent - 1) * stride for extent, stride in zip(values.shape, strides) if extent)
    memory = np.full(max(2, size), np.nan, values.dtype)
    view = as_strided(memory[1:], values.shape, tuple(4 * one for one in strides))
    view[...] = -values if negative else values
    return Tensor(view, on, negative)
