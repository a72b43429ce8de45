"""Lowers CausalConvWithState of ONNX, and of com.microsoft, to a step over rows of tokens."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import who
from intact.engine.steps import CausalConv, Dim, Function, Transpose
from intact.graph import Node, Value, input_of, is_op, ops, set_shape

_TURNED = (0, 2, 1)


def lower_causal_conv(builder: PlanBuilder, node: Node) -> None:
    """Lower a CausalConvWithState: the step has columns last, so Transposes around the node fall away."""
    form = ops.CausalConvWithState.of(node) if not node.domain else ops.RuntimeCausalConvWithState.of(node)
    if form.activation not in ("none", "silu", "swish"):
        raise NoMatch(f"its function is '{form.activation}'")
    weight = builder.constant(input_of(node, 1), "its weight")
    if weight.ndim != 3 or weight.shape[1] != 1:
        raise NoMatch(f"its weight has the shape {weight.shape}")
    bias = input_of(node, 2)
    taps = np.ascontiguousarray(weight[:, 0].T, np.float32)
    weight_name = builder.hold(f"{node.name}.weight", taps)
    bias_name = ""
    if bias is not None:
        numbers = np.asarray(builder.constant(bias, "its bias"), np.float32)
        bias_name = builder.hold(f"{node.name}.bias", numbers)
    x = _read_rows(builder, node, node.inputs[0])
    past = input_of(node, 3)
    past_name = "" if past is None else _read_rows(builder, node, past)
    shape = builder.tensors[x].shape
    y = _RowsOut(builder, node, 0, shape)
    state = _RowsOut(builder, node, 1, (shape[0], len(taps) - 1, shape[2]))
    sums = y.name
    if form.activation != "none":
        sums = builder.scratch(f"{node.name}.sums", "float32", shape)
    builder.add(CausalConv(*who(node), x, sums, state.name, weight_name, past_name, bias_name))
    if form.activation != "none":
        builder.add(Function(*who(node), sums, y.name, "silu"))
    y.finish()
    state.finish()


def _read_rows(builder: PlanBuilder, node: Node, value: Value | None) -> str:
    """Return a tensor [batch, columns, tokens] as [batch, tokens, columns]."""
    producer = None if value is None else value.producer()
    if producer is not None and is_op(producer, "Transpose") and ops.Transpose.of(producer).perm == _TURNED:
        return builder.real(producer.inputs[0])
    x = builder.real(value)
    shape = builder.tensors[x].shape
    if len(shape) != 3:
        raise NoMatch(f"'{x}' has the shape {shape}")
    turned = builder.scratch(f"{x}.rows", "float32", tuple(shape[axis] for axis in _TURNED))
    builder.add(Transpose(*who(node), x, turned, _TURNED))
    return turned


class _RowsOut:
    """An output [batch, columns, tokens] that a step makes as [batch, tokens, columns].

    Attributes:
        name: The tensor that the step makes.
    """

    def __init__(self, builder: PlanBuilder, node: Node, at: int, shape: tuple[Dim, ...]) -> None:
        self._builder, self._node, self._value = builder, node, None
        value = node.outputs[at] if at < len(node.outputs) else None
        if value is None or not value.name:
            self.name = builder.scratch(f"{node.name}.{at}", "float32", shape)
            return
        set_shape(value, [shape[axis] for axis in _TURNED])
        readers = list(value.uses())
        reader = readers[0].node if len(readers) == 1 and not value.is_graph_output() else None
        if reader is not None and is_op(reader, "Transpose") and ops.Transpose.of(reader).perm == _TURNED:
            set_shape(reader.outputs[0], list(shape))
            self.name = builder.write_plain(reader.outputs[0], "float32")
            builder.done[reader] = None
            return
        self.name, self._value = builder.scratch(f"{value.name}.rows", "float32", shape), value

    def finish(self) -> None:
        """Turn what the step has made, where the output is not read turned anyway."""
        if self._value is not None:
            turned = self._builder.write_plain(self._value, "float32")
            self._builder.add(Transpose(*who(self._node), self.name, turned, _TURNED))
