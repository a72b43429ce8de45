"""Convolutions of floats."""

from __future__ import annotations

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.float_weights import Floats, bias_vector, hold_input, write_floats
from intact.engine.lower.rules.moves.stack_planes import as_planes, as_volumes, stack_window, volume_window
from intact.engine.steps import FloatConv
from intact.graph import Node, ops


def write_float_conv_of_volumes(builder: PlanBuilder, node: Node, weight: Floats) -> list[Node]:
    """Write a convolution over volumes as one over planes, each stacked with its neighbours in depth."""
    op, step_names = ops.Conv.of(node), (node.name or "", (node.name or "",))
    window = volume_window(node, op, weight.shape[2:], rows=op.group > 1)
    shape = window.over
    bias = bias_vector(builder, node.inputs[2], len(weight)) if len(node.inputs) > 2 else None
    x, bias_name = builder.real(node.inputs[0]), hold_input(builder, node, 2, "bias", bias)
    planes, before = as_planes(builder, x, *step_names)
    image, stack = stack_window(builder, planes, builder.tensors[x].shape[2], window, *step_names)
    output, behind = as_volumes(builder, write_floats(builder, node.outputs[0]), *step_names)
    w = hold_input(builder, node, 1, "filters", window.filters(weight))
    conv = FloatConv(
        *step_names, image, output, w, bias_name, shape.strides, shape.dilations, shape.pads, op.group
    )
    for step in (*before, *stack, conv, *behind):
        builder.add(step, node)
    return [node]
