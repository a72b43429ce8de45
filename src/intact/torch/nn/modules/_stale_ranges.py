"""Notice weights that have changed since the range of their quantizer was chosen.

An adapter that is merged into a layer, or a write to ``layer.weight``, leaves the range as it was. PyTorch
counts no write through ``weight.data``, so that the error of the quantized weight is watched instead.
"""

from __future__ import annotations

import warnings
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from intact.errors import StaleRangeWarning
from intact.torch.operators import fake_quantize as ops
from intact.torch.private_torch import is_in_functorch

__all__ = ["watch_weight"]

TensorQuantizer: TypeAlias = Any  # its module imports this one

_MOST_ELEMENTS = 4096
"""Elements of a weight that are looked at, evenly spread: they cost some microseconds in each call."""

_GROWTH = 16.0
"""Growth of the squared error that is noticed: 12 dB, two bits of eight."""

_LEAST_ERROR = 1e-3
"""Squared error, as a share of the weight's square, below which growth does not matter: 30 dB."""


def watch_weight(quantizer: TensorQuantizer, weight: Tensor, quantized: Tensor) -> None:
    """Warn once where the error of a quantized weight has grown since its range was set.

    Args:
        quantizer: Not in training mode; keeps the error that its range had at first.
        weight: What it quantizes; only parameters are watched.
        quantized: Its output, of the same shape.
    Warns:
        StaleRangeWarning: Names the quantizer, and both errors.
    """
    untyped: Any = weight
    if not isinstance(untyped, nn.Parameter) or not ops.is_readable(weight) or is_in_functorch():
        return
    range_key = quantizer.format, float(quantizer._amax.sum())
    error = _relative_error(weight, quantized)
    if quantizer._watched is None or quantizer._watched[0] != range_key:
        quantizer._watched = range_key, error
        return
    before = quantizer._watched[1]
    if error > max(_GROWTH * before, _LEAST_ERROR):
        quantizer._watched = range_key, error
        warnings.warn(
            f"quantizer '{quantizer._where()}': the weight has changed since its range was chosen, and lost"
            f" {error:.2%} of its square in quantization, {before:.2%} before. Fix: calibrate(model, data)"
            " once more: what the layer makes has another range, too",
            StaleRangeWarning,
            stacklevel=2,
        )


@torch.no_grad()
def _relative_error(weight: Tensor, quantized: Tensor) -> float:
    """Return the squared error of some elements, as a share of their square."""
    step = max(1, weight.numel() // _MOST_ELEMENTS) | 1  # odd: not one column of the weight alone
    real, ours = (x.detach().as_subclass(Tensor).reshape(-1)[::step].float() for x in (weight, quantized))
    square = float(real.square().sum())
    return float((real - ours).square().sum()) / square if square else 0.0
