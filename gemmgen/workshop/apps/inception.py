"""GoogLeNet's Inception modules (BatchGEMM's Table 6): the branches of a module read the same pixels, and their products are one batch.

Each product writes its own columns of the module's output, so that nothing has to be put together afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from gemmgen.timing.batches.cells import INCEPTION
from gemmgen.workshop.apps.bert import without_torch
from gemmgen.workshop.apps.matmul import Matmul
from gemmgen.workshop.apps.problem import App, Arrays, Figures, Problem, differing, relative


def module(matmul: Matmul, pixels: Any, weights: list[Any]) -> Any:
    """max(0, [pixels W1, pixels W2, ...]), [pixels, filters of all branches], of pixels [pixels, channels] and weights [channels, filters] each."""
    xp, ends = matmul.xp, list(accumulate(weight.shape[1] for weight in weights))
    out = xp.empty((pixels.shape[0], ends[-1]), pixels.dtype)
    matmul.batch([(pixels, weight, out[:, end - weight.shape[1] : end]) for weight, end in zip(weights, ends)])
    return xp.maximum(out, 0, out=out)


def make(sizes: Mapping[str, int], data: str, seed: int) -> Problem:
    images, less, first, last = (sizes[name] for name in ("images", "less", "first", "last"))
    draw = np.random.default_rng(seed)
    inputs, branches = {}, {}
    for number in range(first, min(last, len(INCEPTION)) + 1):
        pixels, filters, channels = INCEPTION[number - 1]
        pixels, channels, filters = max(1, images * pixels // less), max(1, channels // less), tuple(max(1, one // less) for one in filters)
        inputs[f"pixels{number}"] = np.maximum(draw.standard_normal((pixels, channels)), 0).astype(np.float32)  # as a ReLU left them
        branches[number] = len(filters)
        for at, width in enumerate(filters):
            inputs[f"weights{number}.{at}"] = (draw.standard_normal((channels, width)) * (2 / channels) ** 0.5).astype(np.float32)
    kept: list[Arrays] = []

    def run(matmul: Matmul, of: Arrays) -> Arrays:
        return {
            f"module {number}": module(matmul, of[f"pixels{number}"], [of[f"weights{number}.{at}"] for at in range(count)])
            for number, count in branches.items()
        }

    def judge(out: Arrays, exact: Arrays | None) -> Figures:
        assert exact is not None
        kept[:] = [exact]
        return figures(out, exact)

    def beside() -> dict[str, Figures]:
        found = by_torch(inputs, branches) if data == "torch" else None
        return {} if found is None else {"torch FP32, 1 x 1 convolutions": figures(found, kept[0])}

    return Problem(inputs, run, judge, beside=beside, notes=without_torch(data))


def figures(out: Arrays, exact: Arrays) -> Figures:
    strongest = [np.concatenate([one[name].argmax(axis=1) for name in exact]) for one in (out, exact)]
    whole = [np.concatenate([one[name].ravel() for name in exact]) for one in (out, exact)]
    return {"error": relative(*whole), "largest": float(abs(whole[0] - whole[1]).max()), "other filter": differing(*strongest)}


def by_torch(of: Mapping[str, np.ndarray], branches: Mapping[int, int]) -> dict[str, np.ndarray] | None:
    """The same by torch's convolutions in FP32 on the CPU; None where torch is not installed."""
    try:
        import torch
    except ImportError:
        return None
    found = {}
    with torch.no_grad():
        for number, count in branches.items():
            image = torch.from_numpy(of[f"pixels{number}"]).T[None, :, :, None]  # [1, channels, pixels, 1]
            parts = []
            for at in range(count):
                weight = torch.from_numpy(of[f"weights{number}.{at}"])
                branch = torch.nn.Conv2d(*weight.shape, 1, bias=False)
                branch.weight.copy_(weight.T[:, :, None, None])
                parts.append(branch(image)[0, :, :, 0].T)
            found[f"module {number}"] = torch.relu(torch.cat(parts, dim=1)).numpy()
    return found


APP = App(
    "inception", "GoogLeNet's Inception modules, a batch each", "BatchGEMM Table 6 and figure 11",
    sizes={"images": 1, "less": 1, "first": 1, "last": 9}, small={"images": 1, "less": 8, "first": 8, "last": 8}, data=("torch", "drawn"),
    figures={
        "error": "of all activations against FP64's, relative Frobenius", "largest": "largest difference of an activation",
        "other filter": "pixels whose strongest filter is another than in FP64",
    }, make=make,
)
