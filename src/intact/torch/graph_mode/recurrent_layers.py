"""Recurrent layers: one call of PyTorch, with a quantizer inside for each layer that shall have one."""

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
"""The exporter writes each of their layers as one node."""

_WHOLE = (rnn.RNNBase, rnn.RNNCellBase)


def why_whole(module: nn.Module) -> str:
    """Why the graph does not show what a recurrent module does inside; "" where it does."""
    if not isinstance(module, _WHOLE):
        return ""
    if type(module) in LAYERS and not parametrize.is_parametrized(module):
        if not getattr(module, "proj_size", 0):
            return ""
        return f"proj_size={module.proj_size}, which ONNX's layers do not have"
    name = next(c.__name__ for c in type(module).__mro__ if c.__module__.startswith("torch.nn"))
    return f"{name} is one call of PyTorch"


class Inside(NamedTuple):
    """What a node of the graph reads inside a module: the data, or the weights of inputs, of one layer."""

    path: str
    layer: int


Reader = tuple[str, int]


def read_inside(
    model: onnx_graph.Model, owners: Mapping[str, ModelCall], outside: Iterable[Reader]
) -> dict[Reader, Inside]:
    """(ONNX node name, input index) -> the layer that reads there, itself or what only moves data to it.

    Args:
        model: The exported graph, without edges.
        owners: ONNX node name -> the call that it belongs to.
        outside: Readers of what a call reads: these are no affair of the module alone.
    """
    found: dict[Reader, Inside] = {}
    made: Counter[ModelCall] = Counter()
    known = set(outside)
    for node in model.graph:
        owner = owners.get(node.name or "")
        if node.domain or node.op_type not in ops.RECURRENT or owner is None or owner.function:
            continue
        inside = Inside(owner.module, made[owner])
        made[owner] += 1
        found[node.name or "", 1] = inside
        reader = (node.name or "", 0)
        while reader not in known:
            found[reader] = inside
            value = node.inputs[0]
            above = value.producer() if value is not None else None
            if above is None or owners.get(above.name or "") != owner or not _hands_on(above):
                break
            node, reader = above, (above.name or "", 0)
    return found


def _hands_on(node: onnx_graph.Node) -> bool:
    return ops.may_move(node, keeps_all=True) and len(list(node.outputs[0].uses())) == 1
