"""Lowers BatchNormalization that no layer took in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.epilogue import Tail, finish, take_affine, take_bounds, take_slope
from intact.engine.steps import Binary, Conv
from intact.graph import Node, Value


def lower_batch_norm(builder: PlanBuilder, nodes: Sequence[Node]) -> None:
    """Lower a BatchNormalization that no layer took in, and the Relu, Clip or slope behind it.

    Of codes of images it is a convolution of each channel by 1, whose multipliers and biases it is (N29); of
    floats a product and a sum.

    Raises:
        NoMatch: Its parameters are no constants.
    """
    node = nodes[0]
    x = node.inputs[0]
    if any(output.uses() or output.is_graph_output() for output in node.outputs[1:]):
        raise NoMatch("it is in training mode")
    tail = Tail([], node.outputs[0], builder.constant(node.inputs[1], "its scale").size)
    take_affine(builder, tail, node)
    name_and_codes = builder.codes(x)
    if name_and_codes is None or len(builder.tensors[name_and_codes[0]].shape) != 4:
        _in_floats(builder, nodes, x, tail)
        return
    for other in nodes[1:]:
        if not (take_bounds(builder, tail, other) or take_slope(builder, tail, other)):
            raise NoMatch(f"{other.op_type} behind it is no bound")
    name, (source, codes) = node.name or "", name_and_codes
    channels = tail.channels
    if not channels:
        raise NoMatch("it has no channels")
    epilogue, output = finish(builder, tail, (codes.scale, 1.0), name, most=255)
    ones = builder.hold(f"{name}.ones", np.ones((channels, 1, 1, 1), np.int8))
    done = tuple(n.name or "" for n in nodes)
    builder.add(Conv(name, done, source, output.name, ones, epilogue, groups=channels), *nodes)


def lower_batch_norm_alone(builder: PlanBuilder, node: Node) -> None:
    """Lower a BatchNormalization by itself."""
    lower_batch_norm(builder, [node])


def _in_floats(builder: PlanBuilder, nodes: Sequence[Node], x: Value | None, tail: Tail) -> None:
    if len(nodes) > 1:
        raise NoMatch("what it normalizes comes in float, and so does what is behind it")
    source, value = builder.either(x), nodes[0].outputs[0]
    shape = dims_of(value)
    wide = (-1, *[1] * (len(shape) - 2))
    gain, shift = (
        builder.hold(f"{nodes[0].name}.{key}", np.asarray(numbers, np.float32).reshape(wide))
        for key, numbers in (("gain", tail.gain), ("shift", tail.shift))
    )
    name = nodes[0].name or ""
    scaled = builder.scratch(f"{value.name}.scaled", "float32", shape)
    y = builder.write(builder.output(value), value)
    builder.add(Binary(name, (name,), "mul", source, gain, scaled), nodes[0])
    builder.add(Binary(name, (name,), "add", scaled, shift, y))
