"""What torch may be told that changes a product, and quick questions about it: its settings, and what looks at each operator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any


def settings(torch: ModuleType, kind: str) -> tuple[Callable[[], bool], Callable[[], bool]]:
    """Whether torch's FP32 products on such a device may be of less precision, and whether autocast is on: functions of no arguments, called each time.

    The first raises RuntimeError where the program allows TF32 by `fp32_precision` (torch from 2.9 on).
    """
    # Private functions: torch's public way to TF32 takes a microsecond, and to autocast twice the time. The latter asks for all devices: more than needed.
    autocasts = getattr(torch._C, "_is_any_autocast_enabled", None) or partial(torch.is_autocast_enabled, kind)
    if kind == "cuda":
        return torch._C._get_cublas_allow_tf32, autocasts
    return lambda: torch.get_float32_matmul_precision() != "highest", autocasts


def watched(torch: ModuleType) -> Callable[[], bool]:
    """Whether something looks at each operator: a transform such as vmap, a mode, or derivatives forward."""
    modes, transforms, forward_ad = torch._C._len_torch_dispatch_stack, torch._C._functorch.peek_interpreter_stack, torch.autograd.forward_ad
    return lambda: modes() > 0 or transforms() is not None or forward_ad._current_level >= 0


def alike(torch: ModuleType, a: Any, b: Any) -> Callable[[Any, Any], bool] | None:
    """Whether two tensors are plain ones without gradient or sign, of the type, device, extents and strides of these, and nothing but a derivative forward
    looks at operators: one function in C++, which torch.compile's guards call. None where torch has it not, or these are no such tensors."""
    if a.is_neg() or b.is_neg():
        return None
    plain = [x.detach() for x in (a, b)]
    try:
        found = torch._C._dynamo.guards.TensorGuards(
            *plain, dynamic_dims_sizes=[list(x.shape) for x in plain], dynamic_dims_strides=[list(x.stride()) for x in plain]).check
        return found if found(*plain) and not found(plain[0].new_empty(0), plain[1]) else None
    except (AttributeError, TypeError, RuntimeError):
        return None
