"""A perceptron of three layers (MixPert figures 8 to 10): its forward pass, three products that feed one another, and steps of its training, eight each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmgen.workshop.apps.data import blobs, digits, sklearn
from gemmgen.workshop.apps.matmul import Matmul
from gemmgen.workshop.apps.problem import App, Arrays, Figures, Problem, relative

LAYERS, CLASSES = 3, 10


def forward(matmul: Matmul, x: Any, weights: list[Any], biases: list[Any]) -> list[Any]:
    """The activations of all layers: [batch, features], then [batch, width] after ReLU, then [batch, classes] logits.

    Args:
        weights: [in, out] each; biases: [1, out].
    """
    layers = [x]
    for at, (weight, bias) in enumerate(zip(weights, biases)):
        out = matmul(layers[-1], weight)
        out += bias
        layers.append(matmul.xp.maximum(out, 0, out=out) if at + 1 < len(weights) else out)
    return layers


def probabilities(xp: Any, logits: Any) -> Any:
    """Softmax of rows."""
    powers = xp.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def step(matmul: Matmul, layers: list[Any], target: Any, weights: list[Any], biases: list[Any], rate: float) -> None:
    """One step of gradient descent on cross-entropy; weights and biases are changed.

    Args:
        layers: what `forward` gave; target: [batch, classes], 1 at each row's class.
    """
    xp = matmul.xp
    delta = (probabilities(xp, layers[-1]) - target) / np.float32(len(target))
    for at in reversed(range(len(weights))):
        back = matmul(delta, weights[at], op="nt") * (layers[at] > 0) if at else None
        matmul(layers[at], delta, op="tn", out=weights[at], alpha=-rate, beta=1.0)
        biases[at] -= np.float32(rate) * delta.sum(axis=0, keepdims=True)
        delta = back


def make(sizes: Mapping[str, int], data: str, seed: int) -> Problem:
    batch, width, steps = sizes["batch"], sizes["width"], sizes["steps"]
    x, classes = digits(batch) if data == "digits" else blobs(batch, sizes["features"], CLASSES, seed)
    if data == "drawn":
        x = (x / np.float32(4)).astype(np.float32)
    widths = (x.shape[1], *(width,) * (LAYERS - 1), CLASSES if data == "digits" else sizes["outputs"])
    draw = np.random.default_rng(seed + 1)
    rate = 6.4 / max(widths)  # 0.1 of 64: gradients grow with the layers' widths
    target = np.zeros((batch, widths[-1]), np.float32)
    target[np.arange(batch), classes] = 1
    inputs = {"x": x, "target": target}
    for at in range(LAYERS):
        inputs[f"w{at}"] = (draw.standard_normal(widths[at : at + 2]) * (2 / widths[at]) ** 0.5).astype(np.float32)
        inputs[f"b{at}"] = np.zeros((1, widths[at + 1]), np.float32)

    def run(matmul: Matmul, of: Arrays) -> Arrays:
        weights, biases = ([of[f"{name}{at}"].copy() for at in range(LAYERS)] for name in "wb")
        for _ in range(steps):
            step(matmul, forward(matmul, of["x"], weights, biases), of["target"], weights, biases, rate)
        return {"logits": forward(matmul, of["x"], weights, biases)[-1]}

    def judge(out: Arrays, exact: Arrays | None) -> Figures:
        assert exact is not None
        own, best = (cross_entropy(one["logits"], classes) for one in (out, exact))
        wrong = out["logits"].argmax(axis=1) != classes
        return {"loss": own, "over FP64's": own - best, "error": relative(out["logits"], exact["logits"]), "wrong classes": f"{int(wrong.sum())} of {batch}"}

    return Problem(inputs, run, judge, output="logits", beside=lambda: {} if data == "drawn" else fitted(x, classes, inputs, steps, rate))


def cross_entropy(logits: np.ndarray, classes: np.ndarray) -> float:
    """The mean of -log of the classes' probabilities, in FP64."""
    z = logits.astype(np.float64)
    top = z.max(axis=1)
    return float((np.log(np.exp(z - top[:, None]).sum(axis=1)) + top - z[np.arange(len(z)), classes]).mean())


def fitted(x: np.ndarray, classes: np.ndarray, inputs: Mapping[str, np.ndarray], steps: int, rate: float) -> dict[str, Figures]:
    """scikit-learn's perceptron after the same steps from the same weights, in FP64."""
    model = sklearn("neural_network", "gemmgen app mlp").MLPClassifier(
        tuple(inputs[f"b{at}"].shape[1] for at in range(LAYERS - 1)), solver="sgd", alpha=0.0, batch_size=len(x), learning_rate_init=rate, momentum=0.0,
        max_iter=1, shuffle=False,
    )
    double, names = x.astype(np.float64), np.arange(CLASSES)
    model.partial_fit(double, classes, classes=names)  # which makes its weights; ours take their place
    model.coefs_ = [inputs[f"w{at}"].astype(np.float64) for at in range(LAYERS)]
    model.intercepts_ = [inputs[f"b{at}"][0].astype(np.float64) for at in range(LAYERS)]
    for _ in range(steps):
        model.partial_fit(double, classes)
    likely = model.predict_proba(double)
    loss = sklearn("metrics", "gemmgen app mlp").log_loss(classes, likely, labels=names)
    return {"scikit-learn FP64": {"loss": float(loss), "wrong classes": f"{int((likely.argmax(axis=1) != classes).sum())} of {len(x)}"}}


APP = App(
    "mlp", "a perceptron of three layers, forward and trained", "MixPert figures 8 to 10",
    sizes={"batch": 4096, "features": 4096, "width": 4096, "outputs": 4096, "steps": 3},
    small={"batch": 64, "features": 64, "width": 64, "outputs": 64, "steps": 1}, data=("digits", "drawn"),
    figures={
        "loss": "cross-entropy after the steps, computed in FP64", "over FP64's": "loss less that of the same program in FP64",
        "error": "of the logits against FP64's, relative Frobenius", "wrong classes": "of the batch",
    }, make=make,
)
