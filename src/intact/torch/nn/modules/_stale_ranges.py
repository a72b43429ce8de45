"""Notice weights that have changed since the range of their quantizer was chosen.

An adapter that is merged into a layer, or a write to ``layer.weight``, leaves the range as it was. PyTorch
counts no write through ``weight.data``, so that the error of the quantized weight is watched instead.
"""

from __future__ import annotations

import threading
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from intact.errors import StaleRangeWarning
from intact.torch.operators import fake_quantize as ops
from intact.torch.private_torch import DisableTorchFunction, is_in_functorch

__all__ = ["WatchedWeight", "watch_weight", "weights_unwatched"]

TensorQuantizer: TypeAlias = Any  # its module imports this one

_MOST_ELEMENTS = 4096
"""Elements of a weight that are looked at, evenly spread: they cost some microseconds in each call."""

_GROWTH = 16.0
"""Growth of the squared error that is noticed: 12 dB, two bits of eight."""

_LEAST_ERROR = 1e-3
"""Squared error, as a share of the weight's square, below which growth does not matter: 30 dB."""


_SEVERAL = -1
"""Stands for the other weight where a quantizer has more than one."""


@dataclass(frozen=True)
class WatchedWeight:
    """Holds what a quantizer's range did to its weight when it was set.

    Attributes:
        range_key: Names the range.
        error: The squared error, as a share of the weight's square.
        content: A checksum of the elements that were looked at and of the range: what is the same has the
            same error, and costs no second look.
        quantizer, weight: Identities. Those of a copied quantizer are its original's.
        other: Identity of another weight that came last; 0 for none.
    """

    range_key: tuple[str, float]
    error: float
    content: int
    quantizer: int
    weight: int
    other: int = 0

    def is_same(self, quantizer: TensorQuantizer, weight: Tensor, content: int) -> bool:
        """Return whether weight, quantizer and what both hold are those of the record."""
        ours = self.quantizer, self.weight, self.content, self.range_key[0]
        return ours == (id(quantizer), id(weight), content, quantizer.format)

    def turn_to(self, quantizer: TensorQuantizer, weight: Tensor) -> WatchedWeight | None:
        """Return the record where `weight` is not to be compared; None where it is.

        A weight that comes twice in turn has taken the place of the first one. Where the first one comes
        back, the quantizer has several, and none is watched.
        """
        if self.quantizer != id(quantizer):
            return None
        if id(weight) != self.weight:
            return None if self.other == id(weight) else replace(self, other=self.other or id(weight))
        return replace(self, other=_SEVERAL) if self.other else None


_local = threading.local()


@contextmanager
def weights_unwatched() -> Iterator[None]:
    """Watch no weights in this thread inside the context, as where quantizers return what a file has."""
    before = getattr(_local, "is_unwatched", False)
    _local.is_unwatched = True
    try:
        yield
    finally:
        _local.is_unwatched = before


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
    if getattr(_local, "is_unwatched", False):
        return
    if not isinstance(untyped, nn.Parameter) or not ops.is_readable(weight) or is_in_functorch():
        return
    watched: WatchedWeight | None = quantizer._watched
    turned = None if watched is None else watched.turn_to(quantizer, weight)
    if turned is not None:
        quantizer._watched = turned
        return
    # By PyTorch's own kernels: the engine's sums would take longer than the layer.
    with DisableTorchFunction(), torch.no_grad():
        real = _some_elements(weight)
        content = zlib.crc32(_octets(quantizer._amax), zlib.crc32(_octets(real)))
        if watched is not None and watched.is_same(quantizer, weight, content):
            return
        range_key = quantizer.format, float(quantizer._amax.detach().sum())
        error = _relative_error(real, _some_elements(quantized))
    before = error if watched is None or watched.range_key != range_key else watched.error
    is_worse = error > max(_GROWTH * before, _LEAST_ERROR)
    quantizer._watched = WatchedWeight(
        range_key, error if is_worse else before, content, id(quantizer), id(weight)
    )
    if is_worse:
        warnings.warn(
            f"quantizer '{quantizer._where()}': the weight has changed since its range was chosen, and lost"
            f" {error:.2%} of its square in quantization, {before:.2%} before. Fix: calibrate(model, data)"
            " once more: what the layer makes has another range, too",
            StaleRangeWarning,
            stacklevel=2,
        )


def _some_elements(x: Tensor) -> Tensor:
    step = max(1, x.numel() // _MOST_ELEMENTS) | 1  # odd: not one column of the weight alone
    return x.detach().as_subclass(Tensor).reshape(-1)[::step]


def _octets(x: Tensor) -> bytes:
    return ops.as_numpy(x.contiguous()).tobytes()


def _relative_error(real: Tensor, quantized: Tensor) -> float:
    """Return the squared error of some elements, as a share of their square."""
    real, quantized = real.float(), quantized.float()
    square = float(real.square().sum())
    return float((real - quantized).square().sum()) / square if square else 0.0
