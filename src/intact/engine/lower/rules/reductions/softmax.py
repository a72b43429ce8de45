"""Lowers Softmax of floats of 64 bits, and of 32."""

from __future__ import annotations

from collections.abc import Sequence

from intact import numerics
from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.rule import plain, who
from intact.engine.lower.rules.elements.elementwise import operation_step, write_operation
from intact.engine.steps import Fold, Softmax, Tensor
from intact.graph import Node, Value, ops


def lower_wide_softmax(builder: PlanBuilder, node: Node) -> None:
    """Lower Softmax of floats of 64 bits, one operation after the other."""
    x, value = plain(builder, node.inputs[0]), node.outputs[0]
    if x.dtype != "float64" or not x.shape:
        raise NoMatch(f"no kernel has its operations of {x.dtype}")
    axis = ops.Softmax.of(node).axis % len(x.shape)
    reduced = tuple(1 if place == axis else size for place, size in enumerate(x.shape))

    def fold(tensor: Tensor, function: str) -> Tensor:
        y = builder.scratch(f"{value.name}.{function}", x.dtype, reduced)
        builder.add(Fold(*who(node), tensor.name, y, axis, function))
        return builder.tensors[y]

    less = operation_step(builder, node, "sub", x, fold(x, "max"), shape=x.shape)
    powers = operation_step(builder, node, "exp", less, shape=x.shape)
    write_operation(builder, node, "div", [powers, fold(powers, "sum")])


def lower_softmax(builder: PlanBuilder, nodes: Sequence[Node]) -> None:
    """Lower a Softmax; the Add of a mask in front of it, if it is among `nodes`, is part of it.

    Raises:
        NoMatch: The mask has another rank than the scores, or they are a constant.
    """
    node = nodes[-1]
    x, mask = node.inputs[0], ""
    for add in nodes[:-1]:
        a, b = add.inputs
        fixed = a in builder.constants
        x, other = (a, b) if b in builder.constants or (not fixed and _size(a) >= _size(b)) else (b, a)
        if dims_of(add.outputs[0]) != (dims_of(x) if x is not None else ()):
            raise NoMatch("its mask is larger than its scores")
        mask = builder.real(other) if other not in builder.constants else builder.either(other)
    source = builder.variable_tensor(x)
    rank = len(builder.tensors[source].shape)
    output = builder.output(node.outputs[0])
    low = high = None
    if output.grid is not None:  # a softmax lies in [0, 1]
        low, high = numerics.activation_bounds(0.0, 1.0, *output.grid.affine, output.grid.spec)
    y = builder.write(output, node.outputs[0], low, high)
    axis = ops.Softmax.of(node).axis % rank
    done = tuple(n.name or "" for n in nodes)
    builder.add(Softmax(node.name or "", done, source, y, axis, 1.0, mask), *nodes)


def lower_softmax_alone(builder: PlanBuilder, node: Node) -> None:
    """Lower a Softmax of float32 without a mask."""
    lower_softmax(builder, [node])


def _size(value: Value | None) -> int:
    return len(value.shape) if value is not None and value.shape is not None else 0
