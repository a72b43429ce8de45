"""Layers of a language model that lose most against the floats of another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine import Engine
from intact.engine.steps import BlockFloatLinear, BlockLinear, FloatLinear
from intact.lm.language_model import LanguageModel
from intact.lm.sequence_cache import Tokens
from intact.numerics import dequantize_blocks


@dataclass(frozen=True)
class LayerLoss:
    """Holds what one product loses.

    Attributes:
        name: Of its output, such as "3.q".
        bits: Of a code.
        error: Squared error of its output relative to its square, with the codes of the other model on inputs
            of the first.
        total: The same of the outputs of both models as they run: what layers in front lost comes on top.
    """

    name: str
    bits: int
    error: float
    total: float


def layer_losses(first: LanguageModel, other: LanguageModel, tokens: Tokens) -> list[LayerLoss]:
    """Measure the products of two models of one decoder, in their order.

    Args:
        first: With weights in floats; products of codes have no input to measure on, and are left out.
        other: With codes.
        tokens: Of a text.
    Returns:
        The products that both have.
    """
    ids = [int(token) for token in np.asarray(tokens)][: min(first.positions, other.positions)]
    plans = [model.engine.plan for model in (first, other)]
    taps = [model.engine.tap(_inputs(model.engine, ids)) for model in (first, other)]
    floats = {step.y: step for step in plans[0].steps if isinstance(step, FloatLinear)}
    losses = []
    constants = plans[1].constants
    for step in plans[1].steps:
        if not isinstance(step, BlockLinear | BlockFloatLinear):
            continue
        y = step.y
        if y not in floats or y not in taps[1]:
            continue
        x, wanted = taps[0][floats[y].x], taps[0][y].astype(np.float64)
        own = x.reshape(-1, x.shape[-1]) @ dequantize_blocks(step.weights(constants.__getitem__)).T
        if step.bias:
            own += constants[step.bias].astype(np.float32)
        square = max(float((wanted**2).sum()), 1e-300)
        errors = [
            float(((got.reshape(wanted.shape) - wanted) ** 2).sum()) / square for got in (own, taps[1][y])
        ]
        losses.append(LayerLoss(y.removesuffix(".product"), step.bits, *errors))
    return losses


def _inputs(engine: Engine, ids: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Return the inputs of a prompt with nothing in front: logits of its last token are computed."""
    count = len(ids)
    values: dict[str, Any] = {
        "tokens": [list(ids)], "last": [count - 1], "total": count, "rows": [count - 1], "state_rows": [0],
    }  # fmt: skip
    arrays = {}
    for port in engine.inputs:
        if port.name in values:
            arrays[port.name] = np.array(values[port.name], port.dtype)
        else:
            shape = (1, int(port.shape[1]), count, int(port.shape[3]))
            arrays[port.name] = np.zeros(shape, port.dtype)
    return arrays
