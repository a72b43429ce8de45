"""Layers that a parser reads from an ONNX file: one node each, written back as it was."""

from __future__ import annotations

from typing import Any

from intact.graph import Composer
from intact.trt.layers.base import ILayer
from intact.trt.operations import LayerType, layer_type_of


class IOnnxLayer(ILayer):
    """A node of an ONNX file.

    Attributes:
        node: The node (an ``onnx.NodeProto``).
    """

    node: Any = None

    def _title(self) -> str:
        return str(self.node.op_type) if self.node is not None else "Onnx"

    def _count(self) -> int:
        return len(self.node.output)

    def layer_type(self) -> LayerType:
        """What TensorRT calls such a layer."""
        return layer_type_of(self.node.op_type) if not self.node.domain else LayerType.PLUGIN_V2

    def emit(self, c: Composer) -> None:
        """The node, with inputs and outputs under the tensors' names; outputs that nobody names stay open."""
        inputs = [t.name if t is not None else "" for t in self._inputs]
        outputs = [
            t.name if wanted else "" for t, wanted in zip(self._outputs, self.node.output, strict=True)
        ]
        c.copy(self.node, inputs, outputs, self.name)
