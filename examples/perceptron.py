"""Three-layer perceptron (MixPert figure 10): three GEMMs, each fed by the one before.

    gemmgen tune examples/perceptron.py --threshold 1e-5 --size batch=4096 --gpu h100

Weights are drawn as an initialisation does, so that activations neither grow nor vanish: 1.5 / sqrt(512).
"""

import numpy as np


def inputs(batch=512, inputs=512, hidden=512, outputs=512):
    """FP32 matrices by name; the parameters are the sizes that --size changes."""

    def normal(seed, rows, columns, deviation=0.066):
        return np.random.default_rng(seed).normal(0.0, deviation, (rows, columns)).astype(np.float32)

    def bias(seed):
        return np.random.default_rng(seed).uniform(-1, 1, (1, hidden)).astype(np.float32)

    return {
        "x": normal(1, batch, inputs, 1.0), "w1": normal(2, inputs, hidden), "w2": normal(3, hidden, hidden), "w3": normal(4, hidden, outputs),
        "b1": bias(5), "b2": bias(6),
    }


def program(matmul, given):
    """The logits [batch, outputs]. Each call of `matmul` is a GEMM; anything that NumPy does may stand between."""
    hidden = given["x"]
    for weight, bias in (("w1", "b1"), ("w2", "b2")):
        hidden = np.maximum(matmul(hidden, given[weight]) + given[bias], 0)
    return matmul(hidden, given["w3"])
