"""Compute convolutions over volumes [n, c, d, h, w] as the engine does: over images of stacked planes.

The planes that a window has under it become one image: with groups of channels, rows of a plane lie between
those of the others; else the channels of a plane lie behind those of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from intact.torch.exact.exact_operator import exact

__all__ = ["convolve_volumes"]


def convolve_volumes(
    x: Tensor, weight: Tensor, bias: Tensor | None, *, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> Tensor | None:  # fmt: skip
    """Return a convolution of floats in the engine's order of sums; None where it has no such step.

    Args:
        x: float32 [n, c, d, h, w].
        weight: float32 [outputs, c / groups, d, h, w].
        bias: float32 [outputs], or None.
        stride, padding, dilation: Three numbers each.
        groups: Groups of channels.
    """
    outputs, inputs, depth, height, width = weight.shape
    rows = groups > 1
    if rows and depth > 1 and height > 1 and dilation[1] > 1:
        return None
    image = _stack_planes(x, depth, stride[0], padding[0], dilation[0], rows=rows)
    order, shape = ((0, 1, 3, 2, 4), (inputs, height * depth)) if rows else ((0, 2, 1, 3, 4), (-1, height))
    filters = weight.permute(order).reshape(outputs, *shape, width)
    step = depth if rows else 1
    attributes: dict[str, Any] = {
        "stride": [stride[1] * step, stride[2]], "padding": [padding[1] * step, padding[2]],
        "dilation": [1 if rows and depth > 1 else dilation[1], dilation[2]], "groups": groups,
        "transposed": False,
    }  # fmt: skip
    planes = exact("conv", image, filters, *([] if bias is None else [bias]), **attributes)
    return planes.reshape(len(x), -1, *planes.shape[1:]).transpose(1, 2)


def _stack_planes(x: Tensor, kernel: int, stride: int, pad: int, dilation: int, *, rows: bool) -> Tensor:
    """Return the image of each window along the depth, [n * windows, channels, height, width]."""
    x = F.pad(x, (0, 0, 0, 0, pad, pad))
    windows = (x.shape[2] - (kernel - 1) * dilation - 1) // stride + 1
    places = torch.arange(windows)[:, None] * stride + torch.arange(kernel) * dilation
    planes = x[:, :, places]
    n, channels, _, _, height, width = planes.shape
    if rows:
        return planes.permute(0, 2, 1, 4, 3, 5).reshape(n * windows, channels, height * kernel, width)
    return planes.permute(0, 2, 3, 1, 4, 5).reshape(n * windows, kernel * channels, height, width)
