"""What a call of a library may ask of C behind the product: a bias and an activation, by rows of the catalog's epilogues.

The call says which at run time. A kernel with `FUSED` has that choice as arguments, in the code behind its main loop. That adds no register (168 on an H200,
246 on an A100, 144 on an MI300X, with and without) and no time where nothing is asked but a branch; a variant for each activation would be four kernels to
compile, ship and load. The code grows from 74 to 272 KB on an H200. Scalars that lie on the device and matrices that arrays of pointers tell are left to
the kernel of epilogues (templates/library/finish.j2), which has the same text of activations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmgen.catalog.epilogue import GELU, GELU_TANH, RELU, STEEPEST_GELU, U, Argument, Epilogue, Step, everywhere

ACTIVATIONS = (RELU, GELU, GELU_TANH)
"""In the order of their numbers in the library's header, from 1; 0 is none."""


def _activated() -> str:
    """C: an element behind the activation of a number."""
    cases = "".join(f"    if (activation == {number}) return {one.text('x')};\n" for number, one in enumerate(ACTIVATIONS, 1))
    return ("// The numbers of activations are those of the library's header. A NaN stays one.\n"
            f"GG_DEVICE float activated(float x, int activation) {{\n{cases}    return x;\n}}\n")


def _values(x: np.ndarray, bias: Any, activation: Any) -> np.ndarray:
    x = x if bias.dtype == object else x + bias  # None: there is no bias
    return ACTIVATIONS[int(activation) - 1].values(x) if int(activation) else x


STEP = Step(
    "fused", "a bias and an activation as the call asks", "activated({x} + {bias}, {activation})", _values,
    (Argument("bias", "n", "what is added to each column of C, [N], or NULL", optional=True),
     Argument("activation", "all", "its number in the library's header", element="int")),
    slope=lambda bias, activation: STEEPEST_GELU, roundoff=6 * U, source="the rows of the activations", operations=4, host="{x}",
    functions={
        platform: tuple(dict.fromkeys(text for one in ACTIVATIONS if one.functions for text in one.functions[platform])) + texts
        for platform, texts in everywhere(_activated()).items()
    },
)
FUSED = Epilogue((STEP,))
