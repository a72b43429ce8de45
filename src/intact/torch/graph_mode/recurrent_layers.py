"""Find the layers of recurrent modules in the graph.

A recurrent module is one call, with a quantizer for each layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from torch import nn
from torch.nn.modules import rnn
from torch.nn.utils import parametrize

from intact import graph as onnx_graph
from intact.graph import ops
from intact.torch.graph_mode.model_calls import ModelCall

LAYERS = (rnn.LSTM, rnn.GRU, rnn.RNN)  # not torch.nn's names: `initialize` may have put others there
"""Modules whose layers the exporter writes as one node each."""

_RECURRENT = (rnn.RNNBase, rnn.RNNCellBase)


def why_opaque(module: nn.Module) -> str:
    """Return why the graph does not show the layers of a recurrent module; "" where it does."""
    if not isinstance(module, _RECURRENT):
        return ""
    if type(module) in LAYERS and not parametrize.is_parametrized(module):
        if not getattr(module, "proj_size", 0):
            return ""
        return f"proj_size={module.proj_size}, which ONNX's layers do not have"
    name = next(c.__name__ for c in type(module).__mro__ if c.__module__.startswith("torch.nn"))
    return f"{name} is one call of PyTorch"


class LayerInput(NamedTuple):
    """Input of a node inside a module: the data, or the input weights, of one layer."""

    path: str
    layer: int


Reader = tuple[str, int]


def find_layer_inputs(
    model: onnx_graph.Model, owners: Mapping[str, ModelCall], outside: Iterable[Reader]
) -> dict[Reader, LayerInput]:
    """Map (ONNX node name, input index) to the layer that reads there, directly or behind data movement.

    Args:
        model: The exported graph, without markers.
        owners: ONNX node name -> the call that it belongs to.
        outside: Readers of what a call reads, which are not inside of a module.
    """
    layer_inputs: dict[Reader, LayerInput] = {}
    layers_of_call: Counter[ModelCall] = Counter()
    outer_readers = set(outside)
    for node in model.graph:
        owner = owners.get(node.name or "")
        if node.domain or node.op_type not in ops.RECURRENT or owner is None or owner.function:
            continue
        inside = LayerInput(owner.module, layers_of_call[owner])
        layers_of_call[owner] += 1
        layer_inputs[node.name or "", 1] = inside
        reader = (node.name or "", 0)
        while reader not in outer_readers:
            layer_inputs[reader] = inside
            value = node.inputs[0]
            above = value.producer() if value is not None else None
            if above is None or owners.get(above.name or "") != owner or not _only_moves(above):
                break
            node, reader = above, (above.name or "", 0)
    return layer_inputs


def _only_moves(node: onnx_graph.Node) -> bool:
    return ops.may_move(node, keeps_all=True) and len(list(node.outputs[0].uses())) == 1
