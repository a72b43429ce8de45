"""`UpgradeContext`: one graph while `upgrade` and `upgrade_before_opset9` rewrite its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike

from intact.errors import UnsupportedError
from intact.graph.core.build import Inserter, Namer
from intact.graph.core.proto import all_nodes
from intact.graph.ops import attributes


class UpgradeContext:
    """One graph or function on its way up.

    Args:
        graph: Of an older opset.
        target: The opset to reach.
        stores: The graph may have initializers; the body of a function may not.

    Attributes:
        late: Softmaxes and their kind of an unknown rank.
    """

    def __init__(self, graph: ir.Graph, target: int, *, stores: bool) -> None:
        self.graph, self.target, self.stores, self.names = graph, target, stores, Namer(graph)
        self.late = list[ir.Node]()

    def run(self, steps: Mapping[tuple[str, int], Step]) -> None:
        for node in list(all_nodes(self.graph)):
            if node.domain:
                continue
            for first in range(self.graph.opset_imports[""] + 1, self.target + 1):
                step = steps.get((node.op_type, first))
                if step is not None:
                    step(self, node)
            node.version = None

    def refuse(self, node: ir.Node, what: str, first: int) -> UnsupportedError:
        return UnsupportedError(
            f"node '{node.name}' ({node.op_type})",
            f"{what}, in a model that is raised to opset {self.target}",
            f"an opset below {first}",
            f"write the model with opset {first} or newer, or quantize it with an older opset",
        )

    def constant(self, node: ir.Node, name: str, array: ArrayLike) -> ir.Value:
        """Add a constant in front of `node`: an initializer where its graph may have one."""
        name = f"{node.name or node.op_type.lower()}.{name}"
        if node.graph is self.graph and self.stores:
            return self.inserter(node).constant(name, array)
        tensor = ir.tensor(np.asarray(array))
        return self.inserter(node).node(
            "Constant", [], name, dtype=tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), value=tensor
        )

    def inserter(self, node: ir.Node) -> Inserter:
        assert isinstance(node.graph, ir.Graph)
        return Inserter(node.graph, node, self.names)

    def move(self, node: ir.Node, attribute: str, index: int, dtype: object = np.int64) -> None:
        """Move an attribute to the input at `index`."""
        value_attribute = attributes.take(node, attribute)
        if value_attribute is not None:
            if value_attribute.is_ref():
                raise self.refuse(node, f"{attribute} as the function's caller gives it", self.target)
            value = (
                value_attribute.value
                if isinstance(value_attribute.value, (int, float))
                else list(value_attribute.value)
            )
            self.put(node, index, self.constant(node, attribute, np.array(value, dtype)))  # type: ignore[call-overload]

    def put(self, node: ir.Node, index: int, value: ir.Value | None) -> None:
        node.resize_inputs(max(index + 1, len(node.inputs)))
        node.replace_input_with(index, value)


Step = Callable[[UpgradeContext, ir.Node], None]
"""Brings a node from its older form to the one that it has since an opset."""


def real_dtype(node: ir.Node) -> np.dtype:
    """Return the dtype of the first input; float32 where nothing determines it."""
    x = node.inputs[0]
    return np.dtype(x.dtype.numpy()) if x is not None and x.dtype is not None else np.dtype(np.float32)
