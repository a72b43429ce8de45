"""Extracts the part of a network in front of plugins, which ONNX Runtime can run."""

from __future__ import annotations

from intact.engine import find
from intact.graph import Model, Value, part


def before_plugins(model: Model) -> Model:
    """Return `model` without operators that have a Python body, and without their readers.

    What plugins read are outputs of it. A model without plugins comes back as it is.
    """
    behind: set[Value] = set()
    read: list[Value] = []
    for node in model.graph:
        is_plugin = find(f"{node.domain}::{node.op_type}") is not None
        if is_plugin:
            read += [v for v in node.inputs if v is not None and v.producer() is not None]
        if is_plugin or behind.intersection(v for v in node.inputs if v is not None):
            behind.update(node.outputs)
    if not behind:
        return model
    wanted = [v for v in (*model.graph.outputs, *read) if v not in behind]
    return part(model, list(model.graph.inputs), list(dict.fromkeys(wanted)))
