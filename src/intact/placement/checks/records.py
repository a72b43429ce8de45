"""One QuantizeLinear or DequantizeLinear, as the checks read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.graph import Constants, Model, Node, Value
from intact.graph.ops import DequantizeLinear, QuantizeLinear
from intact.placement.placement_graph import is_pair, is_quantize, shape_of
from intact.processes import cached_property

SCALE, ZERO_POINT = 1, 2


@dataclass(frozen=True)
class Half:
    """A QuantizeLinear or DequantizeLinear of any graph: subgraphs and functions included.

    Attributes:
        node: The node.
        constants: What is constant in the main graph.
    """

    node: Node
    constants: Constants

    @property
    def name(self) -> str:
        """The node's name, or that of its output."""
        return (
            self.node.name or (self.node.outputs[0].name if self.node.outputs else None) or self.node.op_type
        )

    def input(self, index: int) -> Value | None:
        """Return an input; None where it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def array(self, index: int) -> NDArray[Any] | None:
        """Return a constant input; None where it is left out or computed."""
        return array_of(self.input(index), self.constants)

    @property
    def quantizes(self) -> bool:
        """Return whether it is the QuantizeLinear of a pair."""
        return is_quantize(self.node)

    @property
    def shape(self) -> list[int | None] | None:
        """Of the data."""
        return shape_of(self.input(0)) or shape_of(self.node.outputs[0])

    @cached_property
    def codes(self) -> str | None:
        """Type of the codes: "INT8", ...; None where the graph does not tell."""
        value = self.node.outputs[0] if self.quantizes else self.input(0)
        declared_dtype = self.form.output_dtype if self.quantizes else 0
        zero_point = self.input(ZERO_POINT)
        for source in (zero_point, value):
            if source is not None and source.dtype is not None:
                return source.dtype.name
        return _TYPE_NAMES.get(declared_dtype) if declared_dtype else None

    @cached_property
    def form(self) -> QuantizeLinear | DequantizeLinear:
        """Return the node's record."""
        return (QuantizeLinear if self.quantizes else DequantizeLinear).of(self.node)

    @property
    def has_axis(self) -> bool:
        """Return whether the file gives the axis."""
        return self.form.axis is not None

    @property
    def axis(self) -> int:
        """The axis, counted from the front where the rank is known."""
        axis = 1 if self.form.axis is None else self.form.axis
        return axis % len(self.shape) if self.shape and axis < 0 else axis

    @property
    def per_channel(self) -> bool:
        """Return whether there is one scale per index of an axis."""
        scale = shape_of(self.input(SCALE))
        size = self.array(SCALE)
        return (
            (size.ndim == 1 and size.size > 1) if size is not None else scale is not None and len(scale) == 1
        )

    @property
    def is_weight(self) -> bool:
        """Return whether the data depends on no input."""
        value = self.input(0)
        return value in self.constants or (value is not None and value.is_initializer())


def is_dynamic_quantizer(node: Node) -> bool:
    """Return whether a node quantizes with scales that it computes: TensorRT's operators of blocks."""
    return node.domain == "trt" and node.op_type in ("TRT_FP4DynamicQuantize", "TRT_MXFP8DynamicQuantize")


def halves(model: Model, constants: Constants) -> list[Half]:
    """Return every half of a pair in the model."""
    return [Half(node, constants) for node in model.graph.all_nodes() if is_pair(node)]


def array_of(value: Value | None, constants: Constants) -> NDArray[Any] | None:
    """Return a constant of the main graph or of the subgraph where it is read."""
    if value is None:
        return None
    if value in constants:
        return constants(value)
    producer = value.producer()
    if producer is not None and is_pair(producer) and producer.inputs and producer.inputs[0] is not None:
        return None
    if value.const_value is not None and not value.is_graph_input():
        return np.asarray(value.const_value.numpy())
    return None


_TYPE_NAMES = {
    2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 6: "INT32", 17: "FLOAT8E4M3FN", 18: "FLOAT8E4M3FNUZ",
    19: "FLOAT8E5M2", 20: "FLOAT8E5M2FNUZ", 21: "UINT4", 22: "INT4", 23: "FLOAT4E2M1",
}  # fmt: skip
