"""Divides the channels of a tensor in front of layers, by a Mul or by the parameters of what makes it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intact.graph import Inserter, Model, Namer, Node, Value, inserter_at, is_op, prune, replace
from intact.ptq.blocks.linear_layers import LinearLayer

_NORMS = ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")


def insert_channel_scales(names: Namer, layers: Sequence[LinearLayer], scales: NDArray[np.float32]) -> str:
    """Divide the tensor that layers read by `scales`, [K], through a Mul by their inverses, in place.

    Weights of the layers are to be multiplied by `scales`.

    Args:
        names: Of the float model.
        layers: Of one graph, in its order.
        scales: Positive.
    Returns:
        The name of the Mul.
    """
    first = layers[0]
    source, stem = first.source, first.source.name
    insert = inserter_at(names, first.node)
    inverses = insert.constant(f"{stem}.channel_scales", (1 / scales).astype(first.dtype))
    quotient = insert.node(
        "Mul", [source, inverses], f"{stem}.scaled", dtype=source.dtype, shape=source.shape
    )
    for layer in layers:
        layer.node.replace_input_with(0, quotient)
    return quotient.name or ""


def fold_channel_scales(model: Model, names: list[str]) -> None:
    """Move factors of Muls into the parameters of norms and Muls by constants in front of them, in place.

    Before: ``Mul(LayerNormalization(x, w, b), t)``.  After: ``LayerNormalization(x, w * t, b * t)``.

    A Mul stays where others read the tensor, too, or where nothing in front of it has parameters.

    Args:
        model: With the Muls of `insert_channel_scales`.
        names: Of them.
    """
    wanted, free_names = set(names), Namer(model.graph)
    for node in [node for node in model.graph.all_nodes() if node.name in wanted]:
        source, factors = node.inputs
        if source is None or factors is None or factors.const_value is None:
            continue
        producer = source.producer()
        if producer is None or source.is_graph_output() or len(source.uses()) != 1:
            continue
        parameters = _parameters(producer)
        if parameters and all(_is_channel_vector(producer.inputs[index], factors) for index in parameters):
            insert = inserter_at(free_names, producer)
            for index in parameters:
                _multiply(producer, index, factors, insert)
            replace(node, source, free_names)
    prune(model)


def _parameters(node: Node) -> tuple[int, ...]:
    """Return which inputs of a node scale its output's last axis; empty where none do."""
    if node.op_type in _NORMS:
        return tuple(index for index, value in enumerate(node.inputs) if index and value is not None)
    if is_op(node, "Mul"):
        constants = [i for i, value in enumerate(node.inputs) if value is not None and _is_stored(value)]
        return tuple(constants[:1])
    return ()


def _is_stored(value: Value) -> bool:
    return value.const_value is not None and not value.is_graph_input()


def _is_channel_vector(value: Value | None, factors: Value) -> bool:
    """Return whether a parameter is a vector over the channels, or a single number."""
    if value is None or not _is_stored(value) or value.const_value is None or factors.const_value is None:
        return False
    shape = tuple(value.const_value.shape.numpy())
    return int(np.prod(shape)) == 1 or shape == tuple(factors.const_value.shape.numpy())


def _multiply(node: Node, index: int, factors: Value, insert: Inserter) -> None:
    old = node.inputs[index]
    assert old is not None and old.const_value is not None and factors.const_value is not None
    product = np.asarray(old.const_value.numpy() * factors.const_value.numpy(), old.const_value.dtype.numpy())
    node.replace_input_with(index, insert.constant(f"{old.name}.scaled", product))
