"""BERT's feed-forward layer (LE-GEMM figures 15 and 16, MixPert's cuBERT): two products with GELU between, a residual and a norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gemmgen.workshop.apps.dense import special
from gemmgen.workshop.apps.matmul import Matmul
from gemmgen.workshop.apps.problem import App, Arrays, Figures, Problem, relative

EPSILON = 1e-12
"""Of BERT's norms."""


def layer(matmul: Matmul, x: Any, of: Arrays) -> Any:
    """norm(x + W2 gelu(W1 x + b1) + b2) of tokens [tokens, hidden].

    Args:
        of: w1 [inner, hidden] and w2 [hidden, inner], as torch's Linear keeps them; b1 [1, inner], b2 [1, hidden].
    """
    inner = activated(matmul.xp, matmul(x, of["w1"], op="nt"), of["b1"])
    out = matmul(inner, of["w2"], op="nt", c=x)
    out += of["b2"]
    out -= out.mean(axis=1, keepdims=True)
    out /= matmul.xp.sqrt((out * out).mean(axis=1, keepdims=True) + out.dtype.type(EPSILON))
    return out


def activated(xp: Any, x: Any, b: Any) -> Any:
    """gelu(x + b), with the error function as BERT has it; on a GPU in one pass over memory."""
    erf = special(xp).erf

    def gelu(x: Any, b: Any) -> Any:
        y = x + b
        return 0.5 * y * (1.0 + erf(y * 0.5**0.5))

    return (gelu if xp is np else _fused(xp, gelu))(x, b).astype(x.dtype, copy=False)


_FUSED: dict[Any, Any] = {}


def _fused(xp: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """One kernel for the whole expression, made once."""
    return _FUSED.setdefault(function.__qualname__, xp.fuse(function))


def make(sizes: Mapping[str, int], data: str, seed: int) -> Problem:
    tokens, hidden, inner = (sizes[name] for name in ("tokens", "hidden", "inner"))
    draw = np.random.default_rng(seed)

    def normal(deviation: float, *shape: int) -> np.ndarray:
        return (deviation * draw.standard_normal(shape)).astype(np.float32)

    inputs = {
        "x": normal(1, tokens, hidden), "w1": normal(0.02, inner, hidden), "b1": normal(0.02, 1, inner), "w2": normal(0.02, hidden, inner),
        "b2": normal(0.02, 1, hidden),
    }
    exact_out: list[np.ndarray] = []

    def run(matmul: Matmul, of: Arrays) -> Arrays:
        return {"y": layer(matmul, of["x"], of)}

    def judge(out: Arrays, exact: Arrays | None) -> Figures:
        assert exact is not None
        exact_out[:] = [exact["y"]]
        return figures(out["y"], exact["y"])

    def beside() -> dict[str, Figures]:
        found = by_torch(inputs) if data == "torch" else None
        return {} if found is None else {"torch FP32": figures(found, exact_out[0])}

    return Problem(inputs, run, judge, beside=beside, output="y", notes=without_torch(data))


def figures(y: np.ndarray, exact: np.ndarray) -> Figures:
    return {"error": relative(y, exact), "largest": float(abs(y - exact).max())}


def without_torch(data: str) -> tuple[str, ...]:
    """What a reader has to know where torch's modules are asked for and torch is not there."""
    from importlib.util import find_spec

    return ("torch is not installed, so its module stands beside nothing here",) if data == "torch" and find_spec("torch") is None else ()


def by_torch(of: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The same by torch's modules in FP32 on the CPU; None where torch is not installed."""
    try:
        import torch
    except ImportError:
        return None
    (inner, hidden), given = of["w1"].shape, {name: torch.from_numpy(x) for name, x in of.items()}
    up, down, norm = torch.nn.Linear(hidden, inner), torch.nn.Linear(inner, hidden), torch.nn.LayerNorm(hidden, eps=EPSILON)
    with torch.no_grad():
        for module, weight, bias in ((up, "w1", "b1"), (down, "w2", "b2")):
            module.weight.copy_(given[weight])
            module.bias.copy_(given[bias][0])
        return norm(given["x"] + down(torch.nn.functional.gelu(up(given["x"])))).numpy()


APP = App(
    "bert", "BERT's feed-forward layer", "LE-GEMM figures 15 and 16, MixPert figure 8 (cuBERT)",
    sizes={"tokens": 16384, "hidden": 1024, "inner": 4096}, small={"tokens": 32, "hidden": 32, "inner": 128}, data=("torch", "drawn"),
    figures={
        "error": "of the layer's output against FP64's, relative Frobenius", "largest": "largest difference of an element, whose deviation is 1",
    }, make=make,
)
