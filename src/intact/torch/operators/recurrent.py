"""Register `intact::recurrent`, one LSTM, GRU or RNN layer as one operator, for export.

`torch.export` runs PyTorch's recurrent functions step by step to learn sizes, which fixes the number of
steps. The exporter also writes RNN as these steps. `WholeLayers` makes calls of these functions one operator
for each layer. Its sizes are known at once, and it is written as one ONNX node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from intact.torch.operators.packed_sequences import PACK, PackedInTrace, run_padded

__all__ = ["WholeLayers", "recurrent_translation"]

_OPSET = 18
_INT32 = 6  # of ONNX's types, what `sequence_lens` has
_NODES: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "lstm": ("LSTM", (0, 3, 1, 2), {}),
    "gru": ("GRU", (1, 0, 2), {"linear_before_reset": 1}),
    "rnn_tanh": ("RNN", (0,), {}),
    "rnn_relu": ("RNN", (0,), {}),
}
"""PyTorch's function -> ONNX's operator, PyTorch's gates in ONNX's order, attributes.

Gates: i, f, g, o as i, o, f, g; r, z, n as z, r, n."""

_FUNCTIONS = {"rnn_tanh": "Tanh", "rnn_relu": "Relu"}

_LIB = torch.library.Library("intact", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIB.define(  # type: ignore[no-untyped-call]
    "recurrent(Tensor x, Tensor[] states, Tensor[] params, str cell, bool bidirectional, Tensor? lengths)"
    " -> Tensor[]"
)


def _run(
    x: Tensor, states: list[Tensor], params: list[Tensor], cell: str, bidirectional: bool,
    lengths: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """Run one layer through `run_padded`."""
    biases = len(params) // (2 if bidirectional else 1) == 4
    return run_padded(cell, x, states, params, biases, bidirectional, lengths)


def _sizes(
    x: Tensor, states: list[Tensor], params: list[Tensor], cell: str, bidirectional: bool,
    lengths: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    hidden = states[0].shape[2] * (2 if bidirectional else 1)
    return [x.new_empty(x.shape[0], x.shape[1], hidden), *map(torch.empty_like, states)]


_LIB.impl("recurrent", _run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("intact::recurrent", _sizes, lib=_LIB)


# ---- into the operator ----


class WholeLayers:
    """The change of traced calls by which recurrent functions of PyTorch are one operator for each layer.

    Packed sequences are padded tensors with lengths; where there are some, all calls are looked at.
    """

    names: Collection[str] = frozenset({*_NODES, PACK})

    def __init__(self) -> None:
        self.sees_all = False
        self._packed = PackedInTrace()

    def perform(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the call; NotImplemented where the operator cannot express it.

        Raises:
            UnsupportedError: It reads packed rows, and computes something else than each by itself.
        """
        if self._packed.concerns(name, args):
            self.sees_all = True
            return self._packed.perform(name, _layer_by_layer, func, args, kwargs)
        if name in _NODES and not kwargs and len(args) == 9 and isinstance(args[3], bool):
            x, hx, params, *layout, batch_first = args
            result = _layer_by_layer(name, x.transpose(0, 1) if batch_first else x, hx, params, *layout)
            if result is not None:
                y, *states = result
                return y.transpose(0, 1) if batch_first else y, *states
        return NotImplemented


def _layer_by_layer(
    cell: str, x: Tensor, hx: Any, params: Sequence[Tensor], biases: bool, layers: int, dropout: float,
    train: bool, bidirectional: bool, lengths: Tensor | None = None,
) -> tuple[Tensor, ...] | None:  # fmt: skip
    """Run all layers over x [steps, batch, inputs]; return None where the operator cannot express them."""
    directions, each = 2 if bidirectional else 1, len(params) // layers
    plain = len(params) == layers * directions * (4 if biases else 2)  # an LSTM may have projections too
    if not plain or (dropout and train):
        return None
    states = list(hx) if cell == "lstm" else [hx]
    last = []
    for layer in range(layers):
        own = [s if layers == 1 else s[layer * directions : (layer + 1) * directions] for s in states]
        weights = list(params[layer * each : (layer + 1) * each])
        x, *ends = torch.ops.intact.recurrent.default(x, own, weights, cell, bidirectional, lengths)
        last.append(ends)
    return x, *(parts[0] if layers == 1 else torch.cat(parts) for parts in zip(*last, strict=True))


# ---- out of it ----


def recurrent_translation() -> dict[Any, Callable[..., Any]]:
    """Return the operator and its ONNX writer, for `custom_translation_table` of `torch.onnx.export`."""
    return {torch.ops.intact.recurrent.default: _write}


def _write(x, states, params, cell, bidirectional, lengths=None):  # type: ignore[no-untyped-def]
    writer = _Writer(cell, params, 2 if bidirectional else 1)
    y, *last = writer.node(x, states, lengths)
    if not bidirectional:
        return [writer.op.Squeeze(y, writer.numbers(1)), *last]
    return [writer.op.Reshape(writer.op.Transpose(y, perm=[0, 2, 1, 3]), writer.numbers(0, 0, -1)), *last]


class _Writer:
    """Writes one layer; `node` returns what `_run` returns, with all states as [steps, directions, batch,
    hidden].
    """

    def __init__(self, cell: str, params: Sequence[Any], directions: int) -> None:
        import onnxscript  # a second of import time, that training does not pay

        self.op: Any = onnxscript.values.Opset("", _OPSET)
        self._type, self._order, self._attributes = _NODES[cell]
        self._functions = {"activations": [_FUNCTIONS[cell]] * directions} if cell in _FUNCTIONS else {}
        self._params, self._directions = params, directions

    def node(self, x: Any, states: Sequence[Any], lengths: Any) -> Any:
        bias = None
        lengths = None if lengths is None else self.op.Cast(lengths, to=_INT32)
        if len(self._params) == 4 * self._directions:
            bias = self.op.Concat(self._stack_params(2), self._stack_params(3), axis=1)
        return getattr(self.op, self._type)(
            x, self._stack_params(0), self._stack_params(1), bias, lengths, *states,
            hidden_size=self._params[1].shape[1],
            direction="bidirectional" if self._directions == 2 else "forward",
            **self._attributes, **self._functions,
        )  # fmt: skip

    def numbers(self, *values: int) -> Any:
        """Add a constant of int64."""
        return self.op.Constant(value_ints=list(values))

    def _stack_params(self, which: int) -> Any:
        """Return one kind of parameter as [directions, ...], its gates in ONNX's order."""
        parts = [
            self.op.Unsqueeze(self._reorder_gates(x), self.numbers(0))
            for x in self._params[which :: len(self._params) // self._directions]
        ]
        return parts[0] if len(parts) == 1 else self.op.Concat(*parts, axis=0)

    def _reorder_gates(self, x: Any) -> Any:
        if len(self._order) == 1:
            return x
        rows = np.arange(x.shape[0]).reshape(len(self._order), -1)[list(self._order)]
        return self.op.Gather(x, self.numbers(*rows.reshape(-1).tolist()), axis=0)
