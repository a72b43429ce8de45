"""Learn ranges in `finetune`: which are learned, where they start, and how an optimizer's steps are
bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from intact.numerics import short_amax, short_range
from intact.torch.calib.calibrator import _Calibrator
from intact.torch.models.batches import forward_batch
from intact.torch.nn.modules import _quantizer_state
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.operators.learned_ranges import SMALLEST
from intact.torch.training.collect_statistics import (
    collecting,
    enabled_quantizers,
    evaluating,
    spec_of,
    weights_of,
)

LEAST_LEFT = 0.5
"""The share of a range that one step of an optimizer must leave. It may halve, and never changes its sign."""


class _StartCalibrator(_Calibrator):
    """Starts the learned range of its quantizer at the first tensor that it is given."""

    def __init__(self, quantizer: TensorQuantizer) -> None:
        super().__init__(8, None, False)
        self._quantizer: TensorQuantizer | None = quantizer

    def collect(self, x: Tensor) -> None:
        if self._quantizer is not None and x.numel():
            self._quantizer.init_learn_amax(x)
            self._quantizer = None


def learn_ranges(model: nn.Module, kind: str, batch: Any = None) -> None:
    """Make every fixed range of `model` a learned one.

    A float grid's range stays as it is, one that is learned already stays at its value.

    Args:
        model: Calibrated.
        kind: "lsq", "lsq+" or "pact".
        batch: None: ranges start where they are. Else where the paper of `kind` starts them: weights by
            their values, activations by those of `batch` in the float model.
    Raises:
        UnsupportedError: (a TypeError) A quantizer is asymmetric, and `kind` is "lsq".
    """
    fixed = {n: q for n, q in enabled_quantizers(model).items() if not q._learn_amax}
    converted = {n: q for n, q in fixed.items() if not isinstance(q.num_bits, tuple)}
    for quantizer in converted.values():
        _quantizer_state.check_learnable(quantizer, kind)
    for quantizer in converted.values():
        _quantizer_state.learn(quantizer, kind)
    if batch is None:
        return
    weights = {name: x for name, x in weights_of(model).items() if name in converted}
    for name, weight in weights.items():
        converted[name].init_learn_amax(nn.Parameter(weight, requires_grad=False))
    starts = {name: _StartCalibrator(q) for name, q in converted.items() if name not in weights}
    with evaluating(model), collecting(enabled_quantizers(model), dict(starts)):
        forward_batch(model, batch)


def learned_ranges_of(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of `model` that are ranges, those of learned clips included."""
    return [p for m in model.modules() if isinstance(m, TensorQuantizer) for p in m.parameters()]


def shorten_scales(model: nn.Module, bits: int) -> None:
    """Widen every learned range of `model` until its scale has `bits` significant bits."""
    for quantizer in learning_quantizers(model):
        spec, high = spec_of(quantizer), quantizer._amax.detach().to("cpu", torch.float32).numpy()
        if quantizer.symmetric:
            quantizer.amax = short_amax(high, spec, bits)
        else:
            low = quantizer._amin.detach().to("cpu", torch.float32).numpy()
            quantizer.set_range(*short_range(low, high, spec, bits))


def learning_quantizers(model: nn.Module) -> list[TensorQuantizer]:
    """Return the enabled quantizers of `model` whose range is a parameter."""
    quantizers = enabled_quantizers(model).values()
    return [q for q in quantizers if isinstance(q._learn_amax, str) and hasattr(q, "_amax")]


class PositiveRanges:
    """Keeps every learned range valid while an optimizer moves its ends.

    Use ``before = ranges.ends()``, then the optimizer's step, then ``ranges.restore_collapsed(before)``.
    It waits for no device.

    Args:
        quantizers: Those that learn, as `learning_quantizers` returns them.
    """

    def __init__(self, quantizers: Iterable[TensorQuantizer]) -> None:
        self._quantizers = list(quantizers)

    @torch.no_grad()
    def ends(self) -> list[tuple[Tensor | None, Tensor]]:
        """Return copies of both ends of each range; the low end is None where it is no parameter."""
        return [
            (None if q.symmetric else q._amin.detach().clone(), q._amax.detach().clone())
            for q in self._quantizers
        ]

    @torch.no_grad()
    def restore_collapsed(self, before: list[tuple[Tensor | None, Tensor]]) -> None:
        """Restore ends that left less than `LEAST_LEFT` of a range, or crossed 0, to the nearest
        valid place.
        """
        for quantizer, (low, high) in zip(self._quantizers, before, strict=True):
            if low is None:
                least = (LEAST_LEFT * high).clamp(min=SMALLEST)
                quantizer._amax.copy_(torch.maximum(quantizer._amax, least))
                continue
            quantizer._amin.clamp_(max=0)
            quantizer._amax.clamp_(min=0)
            collapsed = quantizer._amax - quantizer._amin < LEAST_LEFT * (high - low)
            quantizer._amin.copy_(torch.where(collapsed, LEAST_LEFT * low, quantizer._amin))
            quantizer._amax.copy_(torch.where(collapsed, LEAST_LEFT * high, quantizer._amax))
