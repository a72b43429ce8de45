"""Lowers LayerNormalization."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.rule import present
from intact.engine.steps import Dim, LayerNorm, Reshape
from intact.graph import Node, ops


def lower_layer_norm(builder: PlanBuilder, nodes: Sequence[Node]) -> None:
    """Lower a LayerNormalization; the Add in front of it, if among `nodes`, is its residual.

    The axes that it spans are one, between Reshapes.

    Raises:
        NoMatch: It has other outputs or parameters than kernels know, or spans axes whose size is not known.
    """
    node = nodes[-1]
    x, residual = node.inputs[0], ""
    for add in nodes[:-1]:
        if dims_of(present(add.inputs[0])) != dims_of(present(add.inputs[1])):
            raise NoMatch("the Add before it broadcasts")
        if any(v in builder.constants for v in add.inputs):
            raise NoMatch("the Add before it adds a constant")
        x, residual = add.inputs[0], builder.either(add.inputs[1])
    source = builder.variable_tensor(x)
    shape, op = builder.tensors[source].shape, ops.LayerNormalization.of(node)
    before, spanned = shape[: op.axis % len(shape)], shape[op.axis % len(shape) :]
    sizes = [n for n in spanned if isinstance(n, int)]
    if len(spanned) > 1 and len(sizes) < len(spanned):
        raise NoMatch("it spans axes whose sizes are not known")
    if any(output.uses() or output.is_graph_output() for output in node.outputs[1:]):
        raise NoMatch("its mean or deviation is read")
    weight, bias = (_row(builder, node, index, sizes) for index in (1, 2))
    weight, bias = _as_long(builder, weight, bias, spanned[-1])
    y = builder.write(builder.output(node.outputs[0]), node.outputs[0])
    step_names, into = (node.name or "", tuple(n.name or "" for n in nodes)), y
    if len(spanned) > 1:
        rows = (*(before or (1,)), prod(sizes))
        source, residual = (
            _flat(builder, step_names, name, rows) if name else "" for name in (source, residual)
        )
        into = builder.scratch(f"{y}.rows", builder.tensors[y].dtype, rows, builder.tensors[y].codes)
    builder.add(LayerNorm(*step_names, source, into, weight, bias, op.epsilon, residual), *nodes)
    if into != y:
        builder.add(Reshape(*step_names, into, y))


def lower_layer_norm_alone(builder: PlanBuilder, node: Node) -> None:
    """Lower a LayerNormalization without a residual."""
    lower_layer_norm(builder, [node])


def _as_long(builder: PlanBuilder, weight: str, bias: str, size: Dim) -> tuple[str, str]:
    """Weight and bias with a number for each element, where one of them is for all.

    Raises:
        NoMatch: Nobody knows how many there are.
    """
    lengths = [builder.arrays[name].size for name in (weight, bias) if name]
    if set(lengths) <= {size} or (len(set(lengths)) <= 1 and lengths[0] != 1):
        return weight, bias
    length = size if isinstance(size, int) else max(lengths)
    if length == 1:
        raise NoMatch("its weight and bias are one number for a row of unknown length")

    def long(name: str) -> str:
        if not name or builder.arrays[name].size == length:
            return name
        return builder.hold(f"{name}.row", np.full(length, builder.arrays[name].reshape(()), np.float32))

    if any(n not in (1, length) for n in lengths):
        return weight, bias
    return long(weight), long(bias)


def _flat(
    builder: PlanBuilder, step_names: tuple[str, tuple[str, ...]], x: str, rows: tuple[Dim, ...]
) -> str:
    tensor = builder.tensors[x]
    flat = builder.scratch(f"{x}.rows", tensor.dtype, rows, tensor.codes)
    builder.add(Reshape(*step_names, x, flat))
    return flat


def _row(builder: PlanBuilder, node: Node, index: int, sizes: Sequence[int]) -> str:
    """Store a weight or bias of all elements that are normalized together, as one vector; "" for none."""
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        return ""
    array = builder.constant(value, "its weight or bias")
    if array.dtype != np.float32:
        raise NoMatch("its weight or bias is not float32")
    if len(sizes) > 1:
        try:
            row = np.broadcast_to(array, sizes).reshape(-1)
        except ValueError:
            raise NoMatch("its weight or bias has another shape than what it normalizes") from None
        return builder.hold(f"{node.name}.{value.name}.row", row)
    if array.ndim != 1:
        raise NoMatch("its weight or bias is no vector")
    return builder.hold(value.name or "", array)
