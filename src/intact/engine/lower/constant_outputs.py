"""Outputs of a graph that do not depend on its inputs."""

from __future__ import annotations

import numpy as np

from intact.graph import Constants, Model, Namer, Node, Value, new_constant, set_shape


def part_constant_outputs(model: Model) -> list[str]:
    """Give the readers of each constant output a constant of their own: a plan's tensors are no constants.

    Before: ``zeros -> Add``, the initializer `zeros` an output too.
    After: ``zeros.held -> Add``, ``Identity(zeros.held) -> zeros``, the output.
    """
    graph, constants, names = model.graph, Constants(model.graph), Namer(model.graph)
    parted = list[str]()
    for index, value in enumerate(graph.outputs):
        if value not in constants or not (value.uses() or value.is_initializer()):
            continue
        array, name = constants(value), value.name or ""
        assert array is not None
        held = new_constant(graph, names(f"{name}.held"), np.array(array), value.dtype)
        for use in tuple(value.uses()):
            use.node.replace_input_with(use.idx, held)
        if value.is_initializer():
            node = Node("", "Identity", [held], outputs=[Value(name=name, type=value.type)], name=names(name))
            set_shape(node.outputs[0], array.shape)
            graph.append(node)
            graph.outputs[index] = node.outputs[0]
            graph.initializers.pop(name, None)
        parted.append(f"output '{name}' is a constant")
    return parted
