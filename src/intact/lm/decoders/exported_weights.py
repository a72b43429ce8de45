"""Choose codes for the float weights of an exported decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.formats import BLOCK_INPUTS, block_inputs
from intact.graph import (
    Constants,
    Inserter,
    Model,
    Namer,
    Node,
    is_op,
    new_constant,
    ops,
    prune,
    replace,
)
from intact.lm.decoders.weight_encoder import FLOAT, KEEP
from intact.lm.sequence_cache import STATE_ROWS
from intact.ptq.blocks import BlockFormat, quantize_weights, round_to_nearest

_HEAD, _EMBEDDING = "head", "embedding"


def quantize_exported(
    model: Model, windows: Sequence[NDArray[np.int64]], *, format: str, block: int, method: str,
    activations: str, bits_of: Mapping[str, str], progress: bool = False,
) -> Model:  # fmt: skip
    """Quantize the float weights of products of an exported decoder.

    Args:
        model: With the inputs and outputs of `decoder_model`.
        windows: Tokens of a text, [length] each; none: codes are the nearest ones.
        format, block, method, activations: As for `intact.ptq.quantize_weights`; formats "keep" and "float32"
            change nothing.
        bits_of: Formats of "head" and "embedding", where they have others.
        progress: Show a progress bar.
    Returns:
        An onnx-ir model.
    Raises:
        QuantValueError: A setting is wrong, or no product has float weights.
    """
    unknown = set(bits_of) - {_HEAD, _EMBEDDING}
    if unknown:
        got = f"'{min(unknown)}', in a file whose layers have names of their own"
        raise QuantValueError(
            "bits_of",
            got,
            f"{_HEAD} or {_EMBEDDING}",
            "load the Hugging Face folder that it was exported from",
        )
    head = head_node(model).name or ""
    head_format = bits_of.get(_HEAD, format)
    coded = {format, head_format} - {KEEP, FLOAT}
    is_tied = bool(coded) and _part_head_from_embedding(model)
    table_format = bits_of.get(_EMBEDDING, head_format if is_tied else format)
    if table_format not in (KEEP, FLOAT):
        _quantize_table(model, BlockFormat(table_format, block))
    if not coded:
        return model
    has_small_grids = {BlockFormat(name, block).bits for name in coded} <= {2, 4, 8} and block in _POWERS
    result = quantize_weights(
        model, [_prompt_inputs(model, window) for window in windows] or None,
        weights=format if format in coded else head_format, block=block, method=method,
        activations=activations, formats={head: head_format} if head_format in coded else {},
        include=[] if format in coded else [head], exclude=[] if head_format in coded else [head],
        progress=progress, operator="MatMulNBits" if has_small_grids else "BlockLinear",
    )  # fmt: skip
    return result.model


_POWERS = (16, 32, 64, 128, 256)
"""Blocks that MatMulNBits has."""


def _part_head_from_embedding(model: Model) -> bool:
    """Give the head a matrix of its own, where the table of embeddings is one with it, in place.

    Returns:
        Whether they were one.

    Before: ``MatMul(x, Transpose(embeddings))``.  After: ``MatMul(x, a copy)``, whose codes the head gets.
    """
    head = head_node(model)
    weight = head.inputs[1] if len(head.inputs) > 1 else None
    if weight is None or (weight.const_value is not None and len(weight.uses()) == 1):
        return False
    array = Constants(model.graph)(weight)
    if array is not None and array.ndim == 2:
        name = Namer(model.graph)(f"{head.name}.weight")
        head.replace_input_with(1, new_constant(model.graph, name, np.ascontiguousarray(array)))
    return array is not None


def _quantize_table(model: Model, grid: BlockFormat) -> None:
    """Give the table of tokens codes on a grid, in place: its Gather becomes a BlockGather."""
    tokens = next(value for value in model.graph.inputs if value.name == "tokens")
    for node in [use.node for use in tokens.uses() if is_op(use.node, "Gather") and use.idx == 1]:
        table, output = Constants(model.graph)(node.inputs[0]), node.outputs[0]
        if table is None or table.ndim != 2 or table.dtype != np.float32 or ops.Gather.of(node).axis != 0:
            continue
        arrays, attributes = block_inputs(round_to_nearest(table, grid))
        insert = Inserter(model.graph, node, Namer(model.graph))
        last = max(map(BLOCK_INPUTS.index, arrays))
        constants = [
            insert.constant(f"{_EMBEDDING}.{name}", arrays[name]) if name in arrays else None
            for name in BLOCK_INPUTS[: last + 1]
        ]
        rows = insert.node(
            "BlockGather", [tokens, *constants], _EMBEDDING, dtype=output.dtype, shape=output.shape,
            domain=ops.BlockLinear.domain, **attributes,
        )  # fmt: skip
        replace(node, rows, Namer(model.graph))
    prune(model)


def head_node(model: Model) -> Node:
    """Return the node that gathered rows go into: the product of the head."""
    rows = next(value for value in model.graph.inputs if value.name == "rows")
    (gather,) = (use.node for use in rows.uses())
    (use,) = gather.outputs[0].uses()
    return use.node


def _prompt_inputs(model: Model, window: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the inputs of a prompt with no past: one array serves as all empty caches of a shape."""
    length, arrays = len(window), dict[tuple[int, ...], NDArray[Any]]()
    inputs: dict[str, NDArray[Any]] = {
        "tokens": window[None], "last": np.array([length - 1], np.int32), "total": np.array(length, np.int32),
        "rows": np.array([0]), STATE_ROWS: np.array([0]),
    }  # fmt: skip
    for value in model.graph.inputs:
        if value.shape is not None and len(value.shape) == 4:
            heads, size = (axis for axis in (value.shape[1], value.shape[3]) if isinstance(axis, int))
            shape = (1, heads, length, size)
            inputs[str(value.name)] = arrays.setdefault(shape, np.zeros(shape, np.float32))
    return inputs
