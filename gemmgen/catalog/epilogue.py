"""What becomes of an element of C before it is stored: steps, a row each, and the epilogue that a spec makes of them.

    C = epilogue(alpha A B + beta C)        [epilogue] do = ["bias", "relu"]

Steps are done in the order that the spec gives them, in FP32, and the last one's result is converted to C's type. Other packages bring steps by entry
points of the group `gemmgen.epilogues`; docs/add-an-epilogue.md shows one being added.

NaN and Inf go through every step as its formula has them: bias and ReLU keep a NaN, ReLU makes 0 of -Inf, and both forms of GELU make NaN of -Inf, which
they multiply by 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np

from gemmgen.catalog.brought import with_brought
from gemmgen.catalog.vendor import VENDORS
from gemmgen.errors import SpecError

ENTRY_POINTS = "gemmgen.epilogues"


@dataclass(frozen=True)
class Argument:
    """What a step is given besides the element.

    Attributes:
        name: of the kernel's parameter, the exported C function's argument and the keyword of `gemmgen.road.multiply`.
        over: `n`: a vector with an element for each column of C; `m`: for each row; `all`: one number.
        meaning: in words.
        optional: of a vector, whether NULL stands for one that adds nothing; only to `{x} + {name}`, since -0 changes no number.
        element: the C type.
    """

    name: str
    over: Literal["n", "m", "all"]
    meaning: str
    optional: bool = False
    element: str = "float"

    @property
    def is_vector(self) -> bool:
        return self.over != "all"

    @property
    def stride(self) -> str:
        """The name of a strided batch's argument with the distance between the vectors of two products."""
        return f"stride_{self.name}"

    def at(self, row: str, column: str) -> str:
        """What the element of C at `row` and `column` is given, as C."""
        index = {"n": column, "m": row, "all": None}[self.over]
        if index is None:
            return self.name
        return f"({self.name} ? {self.name}[{index}] : -0.0f)" if self.optional else f"{self.name}[{index}]"

    def from_column(self, column: str) -> str:
        """Where the elements of a vector over n begin that stand from `column` on, as C."""
        place = f"{self.name} + {column}"
        return f"{self.name} ? {place} : nullptr" if self.optional else place

    def spread(self, value: Any) -> np.ndarray:
        """A value of the argument, [N], [M] or a number, so that NumPy pairs it with elements [M, N]."""
        found = np.asarray(value)
        if value is None:
            return found
        return found[..., :, None] if self.over == "m" else found[..., None, :] if self.over == "n" else found


@dataclass(frozen=True)
class Step:
    """One step of an epilogue.

    Attributes:
        name: as specs write it.
        title: in words, for a kernel's header.
        expression: C, the element from the float `{x}` and each argument by its name in braces.
        values: the same of FP64 arrays: of elements [M, N] and of the arguments in order, as `Argument.spread` has them.
        arguments: what the step is given.
        slope: the largest ratio of the distance between two results to that between two elements, of the arguments: an error grows by that factor.
        roundoff: what the step's own arithmetic errs by at most, relative to the larger of the element's and the result's magnitude.
        source: where the formula, the slope and the roundoff come from.
        operations: FP32 instructions an element, which the predicted time counts.
        host: the same of the double `{x}` in C++ with <cmath>, for the program that checks an export; empty: `expression`, which calls nothing.
        functions: C that `expression` calls, texts by the platform (`Vendor.platform`) whose kernels can; None where it calls nothing.
        absent: C, the same for all threads: whether a call's arguments leave every element as it is; empty where the step always does something.
    """

    name: str
    title: str
    expression: str
    values: Callable[..., np.ndarray]
    arguments: tuple[Argument, ...] = ()
    slope: Callable[..., Any] = field(default=lambda *given: 1.0)
    roundoff: float = 0.0
    source: str = ""
    operations: int = 1
    host: str = ""
    functions: Mapping[str, tuple[str, ...]] | None = field(default=None, hash=False)
    absent: str = ""

    def __post_init__(self) -> None:
        if self.functions is not None and not self.host:
            raise ValueError(f"{self.name}: `host` is missing: no program can check what only kernels can call")

    def text(self, x: str) -> str:
        """The expression of the float `x`, as C, whose arguments are variables of their names."""
        return self._filled(self.expression, x)

    def host_text(self, x: str) -> str:
        """The same of the double `x`, as C++."""
        return self._filled(self.host or self.expression, x)

    def _filled(self, form: str, x: str) -> str:
        return form.format(x=x, **{one.name: one.name for one in self.arguments})


@dataclass(frozen=True)
class Epilogue:
    """The steps of a kernel, in order; none is C = alpha A B + beta C."""

    steps: tuple[Step, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.steps)

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.steps]

    @property
    def title(self) -> str:
        """In words."""
        return ", then ".join(one.title for one in self.steps)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Of all steps, in order."""
        return tuple(argument for one in self.steps for argument in one.arguments)

    @property
    def absent(self) -> str:
        """C, whether a call's arguments leave C = alpha A B + beta C; empty where they never do."""
        told = [one.absent for one in self.steps]
        return " && ".join(told) if all(told) else ""

    @property
    def operations(self) -> int:
        """FP32 instructions an element."""
        return sum(one.operations for one in self.steps)

    def lacks(self, platform: str) -> str | None:
        """The first step that kernels of a platform cannot have."""
        return next((one.name for one in self.steps if one.functions is not None and platform not in one.functions), None)

    def functions(self, platform: str) -> str:
        """C that the steps call, each text once."""
        return "\n".join(dict.fromkeys(text for one in self.steps if one.functions for text in one.functions[platform]))

    def values(self, x: np.ndarray, given: Mapping[str, Any]) -> np.ndarray:
        """What exact arithmetic makes of elements.

        Args:
            x: [M, N], alpha A B + beta C in FP64.
            given: the arguments by name.
        """
        *_, (_, result, _) = self._walked(x, given)
        return result

    def error(self, x: np.ndarray, given: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """(slope, own) [M, N] each: a result is within slope |error of the element| + own of `values`.

        Args:
            x, given: as `values` takes them.
        """
        slope, own = np.ones(x.shape), np.zeros(x.shape)
        for before, after, step in self._walked(x, given):
            if step is not None:
                grows = step.slope(*_spread(step, given))
                # Below the smallest normal number FP32's spacing no longer shrinks.
                size = np.maximum(np.maximum(np.abs(before), np.abs(after)), SMALLEST_NORMAL)
                slope, own = slope * grows, own * grows + step.roundoff * size
        return slope, own

    def _walked(self, x: np.ndarray, given: Mapping[str, Any]) -> Iterator[tuple[np.ndarray, np.ndarray, Step | None]]:
        """The elements before and after each step, and before the first."""
        x = np.asarray(x, np.float64)
        yield x, x, None
        with np.errstate(invalid="ignore", over="ignore"):
            for step in self.steps:
                before, x = x, step.values(x, *_spread(step, given))
                yield before, x, step

    def checked(self, given: Mapping[str, Any], m: int, n: int, batch: int | None = None) -> dict[str, Any]:
        """The arguments of a call by name: vectors as FP32 arrays, numbers as floats.

        Args:
            given: as the caller gave them.
            m, n: of C.
            batch: of a strided batch, whose vectors may be [batch, N] or [batch, M], or one for all products; None of one product.

        Raises:
            SpecError: an argument is missing, has another shape or type, or is not one of the epilogue's.
        """
        known = {one.name: one for one in self.arguments}
        if unknown := [name for name in given if name not in known]:
            raise SpecError(
                unknown[0], "is not an argument of this kernel", needs=" and ".join(known) if known else "none: the kernel's epilogue takes no arguments",
                remedy="leave it out, or a spec whose [epilogue] do has a step that takes it",
            )
        found: dict[str, Any] = {}
        for name, one in known.items():
            if one.optional and given.get(name) is None:
                found[name] = None
                continue
            if name not in given:
                raise SpecError(name, "is missing", needs=one.meaning, remedy=f"{name}=..., as [epilogue] do = {self.names} asks for it")
            if not one.is_vector:
                found[name] = int(given[name]) if one.element == "int" else float(given[name])
                continue
            value, length = np.asarray(given[name]), {"n": n, "m": m}[one.over]
            shapes = [(length,), *([(batch, length)] if batch is not None else [])]
            if value.dtype != np.float32 or value.shape not in shapes:
                raise SpecError(name, "is not a vector of float32 that fits C", got=f"{value.dtype} of shape {value.shape}",
                                needs=" or ".join(map(str, shapes)), remedy=f"one element for each {'column' if one.over == 'n' else 'row'} of C")
            found[name] = value
        return found


def _spread(step: Step, given: Mapping[str, Any]) -> list[np.ndarray]:
    """A step's arguments, so that NumPy pairs them with elements."""
    return [one.spread(given[one.name]) for one in step.arguments]


# ---- the rows

U = 2.0**-24
"""Unit roundoff of FP32."""
SMALLEST_NORMAL = 2.0**-126
"""Of FP32."""

EXPONENTIAL = """// e^x; of what is below FP32's range about 1e-38, of what is above it about 2e38.
GG_DEVICE float power_of_e(float x) {
    constexpr float WHOLE = 0x1.8p+23f;  // added to a number, that is its integer in the low bits
    x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    const float held = fmaf(x, 0x1.715476p+0f, WHOLE), whole = held - WHOLE;  // x log2(e) as an integer
    const float rest = fmaf(whole, 0x1.05c610p-29f, fmaf(whole, -0x1.62e430p-1f, x));  // x - whole ln 2, of two parts
    float sum = fmaf(0x1.687b82p-10f, rest, 0x1.123bc6p-7f);
    sum = fmaf(fmaf(sum, rest, 0x1.555b5ap-5f), rest, 0x1.55548ep-3f);
    sum = fmaf(fmaf(sum, rest, 0x1.fffff8p-2f), rest * rest, rest) + 1.0f;
    return __uint_as_float(__float_as_uint(sum) + (__float_as_uint(held) << 23));
}
"""
ERROR_FUNCTION = """// The error function, within 1e-7: up to 1 by its series' shape, x + x P(x^2); above by the logarithm of 1 - erf(x).
GG_DEVICE float error_function(float x) {
    const float t = fabsf(x), s = x * x;
    if (t <= 1.0f) {
        float sum = fmaf(0x1.4b4662p-14f, s, -0x1.a4b50ep-11f);
        sum = fmaf(fmaf(sum, s, 0x1.5422a6p-8f), s, -0x1.b7fd3cp-6f);
        sum = fmaf(fmaf(sum, s, 0x1.ce2d40p-4f), s, -0x1.812740p-2f);
        return fmaf(fmaf(sum, s, 0x1.06eba8p-3f), x, x);
    }
    const float near = t > 4.0f ? 4.0f : t;  // from there on 1 in FP32
    float sum = fmaf(-0x1.697390p-16f, near, 0x1.cd1aa0p-12f);
    sum = fmaf(fmaf(sum, near, -0x1.130fc4p-8f), near, 0x1.9cb398p-6f);
    sum = fmaf(fmaf(sum, near, -0x1.bbf774p-4f), near, -0x1.4438a6p-1f);
    sum = fmaf(fmaf(sum, near, -0x1.212b46p+0f), near, 0x1.855f14p-13f);
    const float rest = power_of_e(sum);
    return x < 0.0f ? rest - 1.0f : 1.0f - rest;
}
"""
GELU_TANH_FUNCTION = """// x (1 + tanh(y)) / 2 with y = sqrt(2 / pi) (x + 0.044715 x^3), which is x / (1 + e^-2y).
GG_DEVICE float gelu_tanh(float x) {
    if (x < -16.0f) return 0.0f * x;  // less than FP32 holds, and NaN of -Inf
    return x / (1.0f + power_of_e(-0x1.988454p+0f * fmaf(0x1.6e4e26p-5f * x * x, x, x)));
}
"""
STEEPEST_GELU = 1.13


def everywhere(*texts: str) -> dict[str, tuple[str, ...]]:
    """The same C for kernels of every platform."""
    return {one.platform: texts for one in VENDORS.values()}


def erf(x: np.ndarray) -> np.ndarray:
    """The error function, of FP64 arrays."""
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


BIAS = Step(
    "bias", "a bias for each column", "{x} + {bias}", lambda x, bias: x + bias,
    (Argument("bias", "n", "what is added to each column of C, [N]"),), roundoff=U,
    source="one FP32 addition; of a column major C it is cublasLt's bias, a vector over the rows", operations=2,
)
BIAS_M = Step(
    "bias_m", "a bias for each row", "{x} + {bias_m}", lambda x, bias: x + bias,
    (Argument("bias_m", "m", "what is added to each row of C, [M]"),), roundoff=U, source="one FP32 addition", operations=2,
)
RELU = Step(
    "relu", "ReLU", "{x} < 0.0f ? 0.0f : {x}", lambda x: np.where(x < 0, 0.0, x),
    source="cublasLt's CUBLASLT_EPILOGUE_RELU, max(x, 0), by torch's rule that a NaN stays one; it rounds nothing", operations=2,
)
GELU = Step(
    "gelu", "GELU by the error function", "0.5f * {x} * (1.0f + error_function({x} * 0x1.6a09e6p-1f))",
    lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), slope=lambda: STEEPEST_GELU, roundoff=4 * U,
    source="Hendrycks and Gimpel, arXiv:1606.08415, x Phi(x), torch's gelu(approximate='none'); steepest at sqrt(2), Phi + sqrt(2) phi = 1.129; "
    "erf within 1e-7, and three roundings", operations=32,
    host="0.5 * {x} * (1 + std::erf({x} / std::sqrt(2.0)))", functions=everywhere(EXPONENTIAL, ERROR_FUNCTION),
)
GELU_TANH = Step(
    "gelu_tanh", "GELU by tanh", "gelu_tanh({x})", _gelu_tanh, slope=lambda: STEEPEST_GELU, roundoff=4 * U,
    source="the same paper's approximation by tanh, cublasLt's CUBLASLT_EPILOGUE_GELU and torch's gelu(approximate='tanh'); as steep to three digits",
    operations=24, host="0.5 * {x} * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * ({x} + 0.044715 * {x} * {x} * {x})))",
    functions=everywhere(EXPONENTIAL, GELU_TANH_FUNCTION),
)
SCALE = Step(
    "scale", "a scale of the whole C", "{x} * {scale}", lambda x, scale: x * scale,
    (Argument("scale", "all", "the number that all of C is multiplied by"),), slope=lambda scale: np.abs(scale), roundoff=U,
    source="one FP32 multiplication",
)

NONE = Epilogue()
SHIPPED = (BIAS, BIAS_M, RELU, GELU, GELU_TANH, SCALE)


@cache
def all_steps() -> dict[str, Step]:
    """The rows by name: those that ship, then those that other packages bring.

    Raises:
        GemmgenError: two have one name.
    """
    return with_brought(SHIPPED, ENTRY_POINTS, "steps of epilogues", "your row")


def require_none(epilogue: Epilogue, what: str) -> None:
    """
    Raises:
        SpecError: C is ended otherwise than `what` knows.
    """
    if epilogue:
        raise SpecError("[epilogue] do", f"{what} no epilogue", got=", ".join(epilogue.names), needs="C = alpha A B + beta C", remedy="leave it out")


def epilogue_of(names: tuple[str, ...]) -> Epilogue:
    """The epilogue of these steps, by their names."""
    return Epilogue(tuple(all_steps()[name] for name in names))
