"""Largest magnitude over axes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from intact.errors import QuantValueError


def reduce_amax(input: Tensor, axis: int | Sequence[int] | None = None, keepdims: bool = True) -> Tensor:
    """Return the largest magnitude of `input` over `axis`.

    Args:
        input: Any shape, not empty.
        axis: The axes to reduce; None: all of them, which gives a 0-D tensor whatever `keepdims` says.
        keepdims: Keep reduced axes with size 1.
    Returns:
        dtype of `input`.
    Raises:
        QuantValueError: (a ValueError) More axes than the tensor has.
    """
    with torch.no_grad():
        if axis is None:
            low, high = torch.aminmax(input)
        else:
            axes = [axis] if isinstance(axis, int) else list(axis)
            if len(axes) > input.dim():
                raise QuantValueError(
                    "reduce_amax axis",
                    f"{axis}. Cannot reduce more axes than tensor's dim.",
                    f"at most {input.dim()} axes",
                    "name axes that the tensor has",
                )
            if not axes:
                return input.abs()
            low, high = input.amin(axes, keepdim=keepdims), input.amax(axes, keepdim=keepdims)
        return torch.maximum(low.abs(), high.abs())
