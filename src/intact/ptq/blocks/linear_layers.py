"""Finds the products of activations with constant matrices, and groups those that read one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from intact.graph import Model, Node, Value, input_of, is_op, ops
from intact.patterns import check_patterns, exact, require_fitting

_FLOATS = ("float32", "float16")


@dataclass(frozen=True)
class LinearLayer:
    """Describes a MatMul or Gemm whose second input is a constant matrix.

    Attributes:
        node: The node.
        weight: The initializer that holds the matrix.
        outputs_first: Whether it is stored as [N, K] instead of [K, N].
        transposes: Whether the node itself transposes it (Gemm with transB).
    """

    node: Node
    weight: Value
    outputs_first: bool
    transposes: bool

    @property
    def name(self) -> str:
        """Name of the node."""
        return self.node.name or ""

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs N and inputs K."""
        first, second = self._matrix().shape
        return (first, second) if self.outputs_first else (second, first)

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the weights, float32 or float16."""
        return self._matrix().dtype

    def rows(self) -> NDArray[np.float32]:
        """Return the weights as float32 [N, K]."""
        stored = self._matrix()
        return np.ascontiguousarray(stored if self.outputs_first else stored.T, np.float32)

    def _matrix(self) -> NDArray:
        assert self.weight.const_value is not None
        return np.asarray(self.weight.const_value.numpy())


@dataclass(frozen=True)
class LayerGroup:
    """Holds the layers that multiply one tensor, in the order of the graph.

    Attributes:
        source: The name of the tensor.
        layers: One or more; they have the same K.
    """

    source: str
    layers: tuple[LinearLayer, ...]


def find_linear_layers(
    model: Model, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> tuple[list[LinearLayer], dict[str, str]]:
    """Find the layers whose weights can be quantized, and say of the others why they stay as they are.

    Args:
        model: Float; constants are initializers.
        include, exclude: Patterns over names of nodes and operator types; no include means all.
    Returns:
        The layers in the order of the graph; and the reason for each MatMul and Gemm that is none, by name.
    Raises:
        QuantValueError: A pattern fits nothing.
    """
    nodes = [node for node in model.graph if is_op(node, "MatMul") or is_op(node, "Gemm")]
    names = [*(node.name or "" for node in model.graph), *{node.op_type for node in model.graph}]
    wanted, unwanted = (
        [exact(pattern, names) for pattern in check_patterns(where, patterns)]
        for where, patterns in (("include", include), ("exclude", exclude))
    )
    require_fitting("include", wanted, names, "nodes or operator types")
    require_fitting("exclude", unwanted, names, "nodes or operator types")
    layers, reasons = [], {}
    for node in nodes:
        if _fits(node, unwanted) or (wanted and not _fits(node, wanted)):
            reasons[node.name or ""] = "excluded"
            continue
        layer = _layer_of(node)
        if isinstance(layer, str):
            reasons[node.name or ""] = layer
        else:
            layers.append(layer)
    return layers, reasons


def group_by_input(layers: Sequence[LinearLayer]) -> list[LayerGroup]:
    """Group layers that read one tensor and have one K, in the order of each group's first layer."""
    groups: dict[tuple[str, int], list[LinearLayer]] = {}
    for layer in layers:
        source = layer.node.inputs[0]
        assert source is not None
        groups.setdefault((source.name or "", layer.shape[1]), []).append(layer)
    return [LayerGroup(source, tuple(members)) for (source, _), members in groups.items()]


def _fits(node: Node, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, p) for p in patterns for name in (node.name or "", node.op_type))


def _layer_of(node: Node) -> LinearLayer | str:
    """Return the layer of a node, or why it is none."""
    data, weight = node.inputs[:2]
    transposes = False
    if is_op(node, "Gemm"):
        form = ops.Gemm.of(node)
        if form.transA:
            return "it transposes its input"
        bias = input_of(node, 2)
        if form.beta != 1 and bias is not None and bias.const_value is None:
            return "beta scales a bias that is no constant"
        transposes = bool(form.transB)
    turned = False
    producer = None if weight is None else weight.producer()
    if producer is not None and is_op(producer, "Transpose"):
        (weight,) = producer.inputs
        turned = True
    if (
        weight is None
        or weight.const_value is None
        or weight.is_graph_input()
        or weight.producer() is not None
    ):
        return "it multiplies two activations"
    if data is None or data.const_value is not None:
        return "its input is constant"
    if len(weight.const_value.shape) != 2:
        return "its weight is no matrix"
    if not weight.const_value.size:
        return "its weight is empty"
    if weight.const_value.dtype.numpy().name not in _FLOATS:
        return f"its weight is {weight.const_value.dtype.numpy().name}"
    if weight.is_graph_output() or any(use.node not in (node, producer) for use in weight.uses()):
        return "other nodes read its weight, too"
    if producer is not None and any(use.node is not node for use in producer.outputs[0].uses()):
        return "other nodes read its weight, too"
    return LinearLayer(node, weight, transposes != turned, transposes)
