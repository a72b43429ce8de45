"""How PyTorch's recurrent functions become nodes of ONNX: one LSTM, GRU or RNN for each layer, all directions.

torch's own exporter writes no RNN (it unrolls the steps), and sizes of its LSTM and GRU as operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from intact.errors import UnsupportedError

__all__ = ["recurrent_functions"]

_OPSET = 18
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""PyTorch's gates in ONNX's order: i, f, g, o as i, o, f, g; r, z, n as z, r, n."""


def recurrent_functions() -> dict[Any, Callable[..., Any]]:
    """Function of ATen -> what writes it, for a `custom_translation_table` of `torch.onnx.export`."""
    aten = torch.ops.aten
    return {
        aten.lstm.input: _writer("LSTM"),
        aten.gru.input: _writer("GRU", linear_before_reset=1),
        aten.rnn_tanh.input: _writer("RNN", "Tanh"),
        aten.rnn_relu.input: _writer("RNN", "Relu"),
    }


def _writer(op_type: str, function: str = "", **attributes: Any) -> Callable[..., Any]:
    def write(  # type: ignore[no-untyped-def]
        input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    ):
        layers = _Layers(op_type, params, has_biases, num_layers, bidirectional)
        given = dict(attributes)
        if function:
            given["activations"] = [function] * layers.directions
        states = list(hx) if op_type == "LSTM" else [hx]
        op = layers.op
        y = op.Transpose(input, perm=[1, 0, 2]) if batch_first else input
        last: list[list[Any]] = [[] for _ in states]
        for layer in range(num_layers):
            y, *ends = layers.write(layer, y, states, given)
            if dropout and train and layer < num_layers - 1:
                y, _ = op.Dropout(y, dropout, True)
            for kept, end in zip(last, ends, strict=True):
                kept.append(end)
        y = op.Transpose(y, perm=[1, 0, 2]) if batch_first else y
        return (y, *(one[0] if len(one) == 1 else op.Concat(*one, axis=0) for one in last))

    return write


class _Layers:
    """The layers of one call."""

    def __init__(
        self, op_type: str, params: Sequence[Any], has_biases: bool, num_layers: int, bidirectional: bool
    ) -> None:
        import onnxscript  # a second of import time, that training does not pay

        self.op: Any = onnxscript.values.Opset("", _OPSET)
        self._op_type, self._params, self._biases = op_type, params, has_biases
        self.directions = 2 if bidirectional else 1
        self._each = 4 if has_biases else 2
        if len(params) != num_layers * self.directions * self._each:
            raise UnsupportedError(
                op_type, "proj_size: states that are projected", "proj_size=0: ONNX's layers have none",
                "project with a Linear behind the layer",
            )  # fmt: skip

    def write(self, layer: int, x: Any, states: list[Any], attributes: dict[str, Any]) -> list[Any]:
        """One node: outputs [steps, batch, directions * hidden], and the last states of the layer."""
        op, first = self.op, layer * self.directions
        one = len(self._params) == self.directions * self._each
        part = [] if one else [op.Constant(value_ints=[at]) for at in (first, first + self.directions, 0)]
        begin = states if one else [op.Slice(state, *part) for state in states]
        hidden = self._params[1].shape[1]
        found = getattr(op, self._op_type)(
            x, self._stacked(layer, 0), self._stacked(layer, 1), self._bias(layer), None, *begin,
            direction="bidirectional" if self.directions == 2 else "forward", hidden_size=hidden, **attributes,
        )  # fmt: skip
        y, *last = found
        if self.directions == 1:
            return [op.Squeeze(y, op.Constant(value_ints=[1])), *last]
        sizes = op.Constant(value_ints=[0, 0, -1])
        return [op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), sizes), *last]

    def _stacked(self, layer: int, which: int) -> Any:
        """[directions, ...] of one kind of parameter, its gates in ONNX's order."""
        parts = []
        for direction in range(self.directions):
            at = (layer * self.directions + direction) * self._each + which
            parts.append(self._first_axis(self._ordered(self._params[at])))
        return parts[0] if len(parts) == 1 else self.op.Concat(*parts, axis=0)

    def _bias(self, layer: int) -> Any:
        if not self._biases:
            return None
        return self.op.Concat(self._stacked(layer, 2), self._stacked(layer, 3), axis=1)

    def _first_axis(self, x: Any) -> Any:
        return self.op.Unsqueeze(x, self.op.Constant(value_ints=[0]))

    def _ordered(self, x: Any) -> Any:
        gates = _GATES[self._op_type]
        if len(gates) == 1:
            return x
        rows = np.arange(x.shape[0]).reshape(len(gates), -1)[list(gates)].reshape(-1)
        return self.op.Gather(x, self.op.Constant(value_ints=rows.tolist()), axis=0)
