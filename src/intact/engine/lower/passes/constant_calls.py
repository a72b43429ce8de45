"""Compute calls and outputs of a graph that do not depend on its inputs."""

from __future__ import annotations

from math import prod

import numpy as np

from intact.errors import UnsupportedError
from intact.graph import (
    Model,
    Node,
    Note,
    Outcome,
    Rewrite,
    Scene,
    Value,
    evaluate_call,
    is_op,
    new_constant,
    set_shape,
)

_CALLS = (
    "AveragePool", "Conv", "ConvTranspose", "DFT", "Det", "GridSample", "LpPool", "MaxPool",
    "MelWeightMatrix", "RoiAlign", "STFT",
)  # fmt: skip
"""Operators that are not folded while a model is read, as they may take long, and make one tensor."""

_MOST_MADE = 2**22
_MOST_PRODUCTS = 2**27
"""About a second: larger ones run in ONNX Runtime."""


def _compute_call(node: Node, scene: Scene) -> Outcome:
    """Replace nodes of which all inputs are constant by constants.

    Before: ``Conv(positions, w) -> Add``, both constants.  After: ``conv -> Add``, a constant.

    Guards: known sizes, and not too many; no codes, whose products are to be integers; a run of it is valid.
    """
    constants = scene.constants
    inputs = [value for value in node.inputs if value is not None]
    if len(node.outputs) != 1 or not _is_small(node):
        return None
    if not all(value in constants and not _is_of_codes(value) for value in inputs):
        return None
    try:
        (array,) = evaluate_call(node, [constants(value) for value in node.inputs])
    except UnsupportedError:  # a run says what is wrong with it
        return None
    result = scene.inserter(node).constant(f"{node.name}.computed", array, node.outputs[0].dtype)
    scene.replace(node, result)
    scene.forget_constants()  # more may follow from it
    return "what it reads is constant"


def _is_small(node: Node) -> bool:
    output_sizes, kernel = _sizes(node.outputs[0]), [1]
    if is_op(node, "Conv", "ConvTranspose"):
        weight = _sizes(node.inputs[1])
        kernel = [_MOST_PRODUCTS + 1] if weight is None else weight[1:]
    return (
        output_sizes is not None
        and prod(output_sizes) <= _MOST_MADE
        and 0 < prod(output_sizes) * prod(kernel) <= _MOST_PRODUCTS
    )


def _sizes(value: Value | None) -> list[int] | None:
    """Return all sizes; None where one is open."""
    shape = None if value is None else value.shape
    sizes = [] if shape is None else [size for size in shape if isinstance(size, int)]
    return None if shape is None or len(sizes) < len(shape) else sizes


def _is_of_codes(value: Value) -> bool:
    node = value.producer()
    return node is not None and is_op(node, "DequantizeLinear", "QuantizeLinear")


def part_constant_outputs(model: Model) -> list[Note]:
    """Give the readers of each constant output a constant of their own: a plan's tensors are no constants.

    Before: ``zeros -> Add``, the initializer `zeros` an output too.
    After: ``zeros.held -> Add``, ``Identity(zeros.held) -> zeros``, the output.
    """
    graph, scene = model.graph, Scene(model.graph)
    constants, names = scene.constants, scene.names
    parted = list[Note]()
    for index, value in enumerate(graph.outputs):
        if value not in constants or not (value.uses() or value.is_initializer()):
            continue
        array, name = constants(value), value.name or ""
        assert array is not None
        constant = new_constant(graph, names(f"{name}.held"), np.array(array), value.dtype)
        for use in tuple(value.uses()):
            use.node.replace_input_with(use.idx, constant)
        if value.is_initializer():
            node = Node(
                "", "Identity", [constant], outputs=[Value(name=name, type=value.type)], name=names(name)
            )
            set_shape(node.outputs[0], array.shape)
            graph.append(node)
            graph.outputs[index] = node.outputs[0]
            graph.initializers.pop(name, None)
        parted.append(Note(name or "", "an output that is a constant"))
    return parted


CONSTANT_CALLS = Rewrite("compute constant calls", _compute_call, _CALLS)
