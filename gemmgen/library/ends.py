"""What a call of a library may ask of C behind the product: a bias and an activation, by rows of the catalog's epilogues.

The call says which at run time. A library's kernels (`FUSED`) add the bias and apply ReLU themselves: the choice is a kernel argument, read behind the
main loop. That adds no register (168 on an H200, 246 on an A100, 144 on an MI300X, with and without) and no time where nothing is asked but a branch; a
variant for each would be two kernels to compile, ship and load. GELU costs more there than the launch that it saves (docs/results/epilogue.md), so the
kernel of epilogues (templates/library/finish.j2) applies it. That one also serves scalars in device memory, and copies of matrices that arrays of
pointers name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gemmgen.catalog.epilogue import GELU, GELU_TANH, RELU, Argument, Epilogue, Step, U, everywhere

ACTIVATIONS = (RELU, GELU, GELU_TANH)
"""In the order of their numbers in the library's header, from 1; 0 is none."""
FUSED_ACTIVATIONS = 1
"""How many of them, from the first, the kernels apply themselves."""


def _activated(rows: Sequence[Step]) -> str:
    """C: an element behind the activation of a number."""
    cases = "".join(f"    if (activation == {number}) return {one.text('x')};\n" for number, one in enumerate(rows, 1))
    return ("// The numbers of activations are those of the library's header. A NaN stays one.\n"
            f"GG_DEVICE float activated(float x, int activation) {{\n{cases}    return x;\n}}\n")


def activations(platform: str) -> str:
    """C of all activations, for the kernel of epilogues."""
    called = (text for one in ACTIVATIONS if one.functions for text in one.functions[platform])
    return "\n".join((*dict.fromkeys(called), _activated(ACTIVATIONS)))


def _values(x: np.ndarray, bias: Any, activation: Any) -> np.ndarray:
    x = x if bias.dtype == object else x + bias  # None: there is no bias
    return ACTIVATIONS[int(activation) - 1].values(x) if int(activation) else x


STEP = Step(
    "fused", "a bias and an activation as the call asks", "activated({x} + {bias}, {activation})", _values,
    (Argument("bias", "n", "what is added to each column of C, [N], or NULL", optional=True),
     Argument("activation", "all", f"its number in the library's header, at most {FUSED_ACTIVATIONS}", element="int")),
    roundoff=U, source="the rows of bias and ReLU", operations=4, host="{x}", functions=everywhere(_activated(ACTIVATIONS[:FUSED_ACTIVATIONS])),
    absent="!bias && activation == 0",
)
FUSED = Epilogue((STEP,))
