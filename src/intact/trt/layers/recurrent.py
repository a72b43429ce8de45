"""TensorRT 8's recurrent layer: RNN, LSTM and GRU over a stack of sequences, with weights gate by gate."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.graph import TypedComposer
from intact.trt.base.itensor import ITensor, Weights, array_of
from intact.trt.base.operation_enums import LayerType, RNNDirection, RNNGateType, RNNInputMode, RNNOperation
from intact.trt.layers.base import ILayer, Nodes

GATES = {
    RNNOperation.RELU: (RNNGateType.INPUT,), RNNOperation.TANH: (RNNGateType.INPUT,),
    RNNOperation.LSTM: (RNNGateType.INPUT, RNNGateType.OUTPUT, RNNGateType.FORGET, RNNGateType.CELL),
    RNNOperation.GRU: (RNNGateType.UPDATE, RNNGateType.RESET, RNNGateType.HIDDEN),
}  # fmt: skip
"""In the order of ONNX's operators."""


def _input_property(index: int) -> Any:
    """Make a property for input `index`."""

    def give(self: ILayer, tensor: ITensor) -> None:
        self.set_input(index, tensor)

    return property(lambda self: self.get_input(index), give)


class IRNNv2Layer(ILayer):
    """Data [..., length, features] to states [..., length, hidden]; the last ones [..., layers, hidden].

    Attributes:
        op: RELU, TANH, LSTM or GRU.
        direction: With BIDIRECTION layers 2k and 2k + 1 are the two ways of layer k.
        input_mode: SKIP: the first layer's data is not multiplied by weights.
        seq_lengths, hidden_state, cell_state: Tensors; zeros, and whole sequences, where they are not set.
    """

    TYPE = LayerType.RNN_V2
    TITLE = "RNN"
    _layers: int = 1
    _hidden: int = 0
    _length: int = 0
    _op = RNNOperation.RELU
    direction = RNNDirection.UNIDIRECTION
    input_mode = RNNInputMode.LINEAR
    seq_lengths = _input_property(1)
    hidden_state = _input_property(2)
    cell_state = _input_property(3)
    num_layers = property(lambda self: self._layers)
    hidden_size = property(lambda self: self._hidden)
    max_seq_length = property(lambda self: self._length)

    def _count(self) -> int:
        return 3

    @property
    def op(self) -> RNNOperation:
        """Return the operation of each step."""
        return self._op

    @op.setter
    def op(self, op: RNNOperation) -> None:
        self._op = RNNOperation(op)

    @property
    def data_length(self) -> int:
        """Features of the data."""
        tensor = self.get_input(0)
        return tensor.shape[-1] if tensor is not None else 0

    def set_weights_for_gate(self, layer_index: int, gate: RNNGateType, is_w: bool, weights: Weights) -> None:
        """Set the weights of a gate: for the data (`is_w`), or for the state."""
        self._weights()[int(layer_index), RNNGateType(gate), bool(is_w), "weights"] = array_of(weights)
        self._network.touch()

    def set_bias_for_gate(self, layer_index: int, gate: RNNGateType, is_w: bool, bias: Weights) -> None:
        """Set the bias of a gate: beside the weights for the data, or beside those for the state."""
        self._weights()[int(layer_index), RNNGateType(gate), bool(is_w), "bias"] = array_of(bias)
        self._network.touch()

    def get_weights_for_gate(self, layer_index: int, gate: RNNGateType, is_w: bool) -> NDArray | None:
        """Return the weights set by `set_weights_for_gate`."""
        return self._weights().get((int(layer_index), RNNGateType(gate), bool(is_w), "weights"))

    def get_bias_for_gate(self, layer_index: int, gate: RNNGateType, is_w: bool) -> NDArray | None:
        """Return the bias set by `set_bias_for_gate`."""
        return self._weights().get((int(layer_index), RNNGateType(gate), bool(is_w), "bias"))

    def _weights(self) -> dict[Any, Any]:
        weights: dict[Any, Any] = self.__dict__.setdefault("_gate_weights", {})
        return weights

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n, inputs = Nodes(c, self.name), [*x, "", "", ""][:4]
        shape = n.sizes(x[0])
        outer = n("Slice", shape, n.ints(0), n.ints(-2))
        data = n("Reshape", x[0], n.ints(-1, self._length, self.data_length))
        ways = 1 + (self.direction is RNNDirection.BIDIRECTION)
        lengths = n.cast(n("Reshape", inputs[1], n.ints(-1)), "int32") if inputs[1] else ""
        states = [self._states(n, name, ways) for name in inputs[2:4]]
        last: list[list[str]] = [[], []]
        for layer in range(self._layers):
            data, ends = self._layer(n, data, layer, ways, lengths, [s[layer] if s else "" for s in states])
            for states_of_kind, end in zip(last, ends, strict=True):
                states_of_kind.append(end)
        hidden = n("Concat", outer, n.ints(self._length, ways * self._hidden), axis=0)
        n("Reshape", data, hidden, to=y[0])
        ended = n("Concat", outer, n.ints(self._layers * ways, self._hidden), axis=0)
        for name, ends, target in zip(("hidden", "cell"), last, y[1:], strict=True):
            ends = ends if self._op is RNNOperation.LSTM or name == "hidden" else last[0]
            whole = n("Transpose", n("Concat", *ends, axis=0), perm=[1, 0, 2])
            last_states = n("Reshape", whole, ended)
            c.node("Identity", [last_states], [target], name=f"{self.name}.{name}")

    def _states(self, n: Nodes, name: str, ways: int) -> list[str]:
        """Return the first states of each layer: [ways, batch, hidden]."""
        if not name:
            return []
        whole = n("Reshape", name, n.ints(-1, self._layers * ways, self._hidden))
        whole = n("Transpose", whole, perm=[1, 0, 2])
        return [
            n("Slice", whole, n.ints(i * ways), n.ints((i + 1) * ways), n.ints(0))
            for i in range(self._layers)
        ]

    def _layer(
        self, n: Nodes, data: str, layer: int, ways: int, lengths: str, states: list[str]
    ) -> tuple[str, list[str]]:
        """Write one layer, both ways: its states [batch, length, ways * hidden], and the last ones."""
        index = [layer * ways + way for way in range(ways)]
        w, r = (n.array(np.stack([self._matrix(i, is_w, layer) for i in index])) for is_w in (True, False))
        b = n.array(np.stack([np.concatenate([self._bias(i, w) for w in (True, False)]) for i in index]))
        lstm = self._op is RNNOperation.LSTM
        steps_first = n("Transpose", data, perm=[1, 0, 2])
        outputs = [
            n.c.fresh(f"{self.name}.{part}{layer}") for part in ("states", "hidden", "cell")[: 2 + lstm]
        ]
        kind = {RNNOperation.LSTM: "LSTM", RNNOperation.GRU: "GRU"}.get(self._op, "RNN")
        names = {RNNOperation.RELU: "Relu", RNNOperation.TANH: "Tanh"}
        n.c.node(
            kind, [steps_first, w, r, b, lengths, *states[: 1 + lstm]], outputs, name=outputs[0],
            hidden_size=self._hidden, direction="bidirectional" if ways == 2 else "forward",
            activations=[names[self._op]] * ways if self._op in names else None,
            linear_before_reset=1 if kind == "GRU" else None,
        )  # fmt: skip
        flat = n("Transpose", outputs[0], perm=[2, 0, 1, 3])  # [length, ways, batch, hidden]
        together = n("Reshape", flat, n.ints(0, 0, -1))
        return together, [outputs[1], outputs[2] if lstm else outputs[1]]

    def _matrix(self, index: int, is_w: bool, layer: int) -> NDArray:
        skip = is_w and layer == 0 and self.input_mode is RNNInputMode.SKIP
        parts = []
        for gate in GATES[self._op]:
            weights = self.get_weights_for_gate(index, gate, is_w)
            if skip:
                weights = np.eye(self._hidden, self.data_length, dtype=np.float32)
            if weights is None:
                raise ValueError(
                    f"layer {index}, gate {gate.name}: no {'input' if is_w else 'state'} weights"
                )
            parts.append(np.asarray(weights, np.float32).reshape(self._hidden, -1))
        return np.concatenate(parts)

    def _bias(self, index: int, is_w: bool) -> NDArray:
        zeros = np.zeros(self._hidden, np.float32)
        biases = [self.get_bias_for_gate(index, gate, is_w) for gate in GATES[self._op]]
        return np.concatenate([zeros if b is None else np.asarray(b, np.float32).reshape(-1) for b in biases])
