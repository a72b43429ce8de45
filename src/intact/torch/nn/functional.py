"""`clip`: a clamp whose bounds can be learned (PACT)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from intact.errors import QuantValueError
from intact.torch.alias import OLD_NAME, is_aliased

__all__ = ["ClipFunction", "clip"]


class ClipFunction(Function):
    """Clamp with the gradient of PACT; see `clip`."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, clip_value_min: Tensor, clip_value_max: Tensor) -> Tensor:
        ctx.save_for_backward(input, clip_value_min, clip_value_max)
        return torch.minimum(torch.maximum(input, clip_value_min), clip_value_max).to(input.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        input, low, high = ctx.saved_tensors
        if is_aliased() and any(ctx.needs_input_grad[1:]) and (low.numel() != 1 or high.numel() != 1):
            raise QuantValueError(
                "clip", f"learned bounds of the sizes {tuple(low.shape)} and {tuple(high.shape)}",
                f"Learnable min/max can only be scalar, as in {OLD_NAME}",
                "learn one bound for all values, or import intact.torch and do without its alias",
            )  # fmt: skip
        below, above = input <= low, input >= high
        zero = torch.zeros_like(grad)
        grad_input = torch.where(below | above, zero, grad)
        grad_low = _sum_like(torch.where(below, grad, zero), low) if ctx.needs_input_grad[1] else None
        grad_high = _sum_like(torch.where(above, grad, zero), high) if ctx.needs_input_grad[2] else None
        return grad_input, grad_low, grad_high


def _sum_like(grad: Tensor, bound: Tensor) -> Tensor:
    return grad.to(bound.dtype).sum_to_size(bound.shape)


def clip(input: Tensor, clip_value_min: Tensor | float, clip_value_max: Tensor | float) -> Tensor:
    """Compute ``min(max(input, clip_value_min), clip_value_max)``.

    Args:
        input: Any shape.
        clip_value_min, clip_value_max: Numbers or tensors that broadcast to `input`.
    Returns:
        Shape and dtype of `input`.
    Gradient: to `input` strictly inside the bounds; to each bound the sum of the gradients of what it clips,
        values equal to it included.
    Source: PACT, Choi et al. 2018.
    """
    low, high = (
        b if isinstance(b, Tensor) else torch.tensor(b, dtype=input.dtype, device=input.device)
        for b in (clip_value_min, clip_value_max)
    )
    return ClipFunction.apply(input, low, high)  # type: ignore[no-any-return,no-untyped-call]
