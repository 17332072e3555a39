"""The linear layers before a language model's attention (LE-GEMM figures 15 and 16): queries, keys and values of tokens in [0.5, 2.5]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmgen.workshop.apps.bert import without_torch
from gemmgen.workshop.apps.matmul import Matmul
from gemmgen.workshop.apps.problem import App, Arrays, Figures, Problem, relative

LOW, HIGH = 0.5, 2.5
"""The range of a layer's inputs that LE-GEMM names."""
TOKENS = 256
"""Of the first head's attention that is looked at."""


def projected(matmul: Matmul, of: Arrays) -> dict[str, Any]:
    """q [tokens, hidden], k and v [tokens, kv] of x [tokens, hidden], by weights as torch's Linear keeps them, [out, hidden]."""
    return {name: matmul(of["x"], of[f"w{name}"], op="nt") for name in "qkv"}


def attention(q: np.ndarray, k: np.ndarray, head: int) -> np.ndarray:
    """How the first head's first tokens attend to one another, [tokens, tokens], in FP64."""
    own, other = (x[:TOKENS, :head].astype(np.float64) for x in (q, k))
    scores = own @ other.T / head**0.5
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def make(sizes: Mapping[str, int], data: str, seed: int) -> Problem:
    tokens, hidden, kv, head = (sizes[name] for name in ("tokens", "hidden", "kv", "head"))
    draw = np.random.default_rng(seed)
    inputs = {"x": (LOW + (HIGH - LOW) * draw.random((tokens, hidden))).astype(np.float32)}
    for name, width in (("q", hidden), ("k", kv), ("v", kv)):
        inputs[f"w{name}"] = (draw.standard_normal((width, hidden)) / hidden**0.5).astype(np.float32)
    kept: list[Arrays] = []

    def run(matmul: Matmul, of: Arrays) -> Arrays:
        return projected(matmul, of)

    def judge(out: Arrays, exact: Arrays | None) -> Figures:
        assert exact is not None
        kept[:] = [exact]
        return figures(out, exact, head)

    def beside() -> dict[str, Figures]:
        found = by_torch(inputs) if data == "torch" else None
        return {} if found is None else {"torch FP32": figures(found, kept[0], head)}

    return Problem(inputs, run, judge, beside=beside, notes=without_torch(data))


def figures(out: Arrays, exact: Arrays, head: int) -> Figures:
    difference = {name: abs(out[name].astype(np.float64) - exact[name]) for name in "qkv"}
    return {
        "error": relative(np.hstack([out[name] for name in "qkv"]), np.hstack([exact[name] for name in "qkv"])),
        "MRED": float(np.mean([(difference[name] / abs(exact[name])).mean() for name in "qkv"])),
        "attention": float(abs(attention(out["q"], out["k"], head) - attention(exact["q"], exact["k"], head)).max()),
    }


def by_torch(of: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """The same by torch's Linear in FP32 on the CPU; None where torch is not installed."""
    try:
        import torch
    except ImportError:
        return None
    x, found = torch.from_numpy(of["x"]), {}
    with torch.no_grad():
        for name in "qkv":
            weight = torch.from_numpy(of[f"w{name}"])
            linear = torch.nn.Linear(*reversed(weight.shape), bias=False)
            linear.weight.copy_(weight)
            found[name] = linear(x).numpy()
    return found


APP = App(
    "llm", "a language model's query, key and value layers", "LE-GEMM figures 15 and 16",
    sizes={"tokens": 4096, "hidden": 4096, "kv": 1024, "head": 128}, small={"tokens": 32, "hidden": 64, "kv": 32, "head": 16}, data=("torch", "drawn"),
    figures={
        "error": "of q, k and v against FP64's, relative Frobenius", "MRED": "mean |C - C*| / |C*| (LE-GEMM eq. 20), against FP64",
        "attention": f"largest difference of a probability of the first head's first {TOKENS} tokens",
    }, make=make,
)
