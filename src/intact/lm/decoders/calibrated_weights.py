"""Choose the codes of a decoder's weights by what its layers read on a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.lm.decoders.decoder_graph import decoder_model
from intact.lm.decoders.decoder_weights import DecoderWeights
from intact.lm.decoders.weight_encoder import FLOAT, weight_encoder
from intact.lm.sequence_cache import STATE_ROWS
from intact.ptq.blocks import BlockFormat, quantize_weights

WINDOW, WINDOWS = 512, 16
"""Tokens of a window of the text, and how many are read at most: more change little."""

HEADS = ("logits", "head", "head.product")
"""Names that the node of the head may have."""


def calibrated_model(
    weights: DecoderWeights, positions: int, windows: Sequence[NDArray[np.int64]], *, format: str, block: int,
    method: str, bits_of: Mapping[str, str], progress: bool = False,
) -> Any:  # fmt: skip
    """Build a decoder whose codes lose little on a text.

    Args:
        weights: Of the decoder.
        positions: The longest sequence that it takes.
        windows: Tokens of the text, [length] each.
        format, block, method: As `weights`, `block` and `method` of `intact.ptq.quantize_weights`.
        bits_of: As for `weight_encoder`, of layers and of the head, which is rounded to nearest.
        progress: Show a progress bar.
    Returns:
        An onnx-ir model.
    Raises:
        QuantValueError: A setting is wrong.
    """
    head = bits_of.get("head", "int8")
    model = float_model(
        weights, positions, {"head": head, "embedding": bits_of.get("embedding", head)}, block
    )
    batches = [prompt_inputs(weights, window) for window in windows]
    formats = {name: bits_of[layer] for name in _layer_names(model) if (layer := role_of(name)) in bits_of}
    names = {BlockFormat(name, block).bits for name in (format, *formats.values())}
    result = quantize_weights(
        model, batches, weights=format, block=block, method=method, activations="dynamic-int8",
        formats=formats, operator="MatMulNBits" if names <= {2, 4, 8} else "BlockLinear",
        exclude=[node.name for node in model.graph if node.name in HEADS], progress=progress,
    )  # fmt: skip
    return result.model


def role_of(name: str) -> str:
    """Return the layer and role of a node, such as "3.q"; of one in front of a bias, too."""
    return name.removesuffix(".product")


def _layer_names(model: Any) -> list[str]:
    return [node.name for node in model.graph if node.op_type == "MatMul"]


def float_model(
    weights: DecoderWeights, positions: int, bits_of: Mapping[str, str], block: int
) -> Any:  # fmt: skip
    """Build a decoder of floats, but for the roles of `bits_of`, with all types declared.

    Args:
        weights: Of the decoder.
        positions: The longest sequence that it takes.
        bits_of: Formats by role, as for `weight_encoder`.
        block: Elements that share a scale.
    Returns:
        An onnx-ir model.
    """
    model = decoder_model(weights, positions, weight_encoder(FLOAT, block, bits_of))
    _declare_floats(model)
    return model


def _declare_floats(model: Any) -> None:
    """Declare the type of what nodes make: ONNX's inference knows no SimplifiedLayerNormalization."""
    float32 = next(value.dtype for value in model.graph.inputs if "." in value.name)
    for node in model.graph:
        for value in node.outputs:
            if value.dtype is None:
                value.dtype = float32


def prompt_inputs(
    weights: DecoderWeights, window: NDArray[np.int64], rows: Sequence[int] = (0,)
) -> dict[str, NDArray[Any]]:
    """Return the inputs of a prompt: nothing comes before it, and one array serves as all empty caches.

    Args:
        weights: Of the decoder.
        window: Its tokens.
        rows: Tokens whose logits are wanted.
    """
    length, empty = len(window), dict[tuple[int, int, int], NDArray[np.float32]]()
    caches = {}
    for name, (heads, tokens, size) in weights.config.cache_shapes().items():
        shape = (heads, length if tokens is None else tokens, size)
        caches[name] = empty.setdefault(shape, np.zeros((1, *shape), np.float32))
    return {
        "tokens": window[None], "last": np.array([length - 1], np.int32), "total": np.array(length, np.int32),
        "rows": np.array(rows, np.int64), STATE_ROWS: np.array([0]), **caches,
    }  # fmt: skip
