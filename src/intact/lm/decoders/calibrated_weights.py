"""Choose the codes of a decoder's weights by what its layers read on a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.lm.decoders.decoder_graph import decoder_model
from intact.lm.decoders.decoder_weights import DecoderWeights
from intact.lm.decoders.weight_encoder import FLOAT, weight_encoder
from intact.lm.sequence_cache import STATE_ROWS
from intact.ptq.blocks import quantize_weights

WINDOW, WINDOWS = 512, 16
"""Tokens of a window of the text, and how many are read at most: more change little."""

_HEADS = ("logits", "head")


def calibrated_model(
    weights: DecoderWeights, positions: int, windows: Sequence[NDArray[np.int64]], *, format: str, block: int,
    method: str, head: str, progress: bool = False,
) -> Any:  # fmt: skip
    """Build a decoder whose codes lose little on a text.

    Args:
        weights: Of the decoder.
        positions: The longest sequence that it takes.
        windows: Tokens of the text, [length] each.
        format, block, method: As `weights`, `block` and `method` of `intact.ptq.quantize_weights`.
        head: Format of the head, as for `weight_encoder`: it is rounded to nearest.
        progress: Show a progress bar.
    Returns:
        An onnx-ir model.
    Raises:
        QuantValueError: A setting is wrong.
    """
    encode = weight_encoder(FLOAT, block, {"head": head, "embedding": head})
    model = decoder_model(weights, positions, encode)
    _declare_floats(model)
    batches = [_inputs(weights, window) for window in windows]
    result = quantize_weights(
        model, batches, weights=format, block=block, method=method, activations="dynamic-int8",
        exclude=[node.name for node in model.graph if node.name in _HEADS], progress=progress,
    )  # fmt: skip
    return result.model


def _declare_floats(model: Any) -> None:
    """Declare the type of what nodes make: ONNX's inference knows no SimplifiedLayerNormalization."""
    float32 = next(value.dtype for value in model.graph.inputs if value.name == "keys.0")
    for node in model.graph:
        for value in node.outputs:
            if value.dtype is None:
                value.dtype = float32


def _inputs(weights: DecoderWeights, window: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the inputs of a prompt: nothing comes before it, and one array serves as all empty caches."""
    config, length = weights.config, len(window)
    empty = np.zeros((1, config.kv_heads, length, config.head_size), np.float32)
    caches = {f"{name}.{layer}": empty for name in ("keys", "values") for layer in range(config.layers)}
    return {
        "tokens": window[None], "last": np.array([length - 1], np.int32), "total": np.array(length, np.int32),
        "rows": np.array([0]), STATE_ROWS: np.array([0]), **caches,
    }  # fmt: skip
