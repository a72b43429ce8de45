"""LSTM and GRU, whole and as cells, with quantized matrix products.

Each layer and direction has one input quantizer over ``cat(x, h)`` and one weight quantizer over
``cat(w_ih, w_hh)``, the old library's structure, in the ModuleLists ``_input_quantizers`` and
``_weight_quantizers``: entry ``layer * directions + direction``. The element-wise part (gates, states) and
the biases stay float. Time is a Python loop; without quantization the result is torch's up to float rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from intact.errors import QuantValueError, UnsupportedError
from intact.torch.nn.modules._utils import QuantizedLayer, engine_functions
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.tensor_quant import QUANT_DESC_8BIT_LINEAR_WEIGHT_PER_ROW, QuantDescriptor

__all__ = [
    "GRU",
    "GRUCell",
    "LSTM",
    "LSTMCell",
    "QuantGRU",
    "QuantGRUCell",
    "QuantLSTM",
    "QuantLSTMCell",
]

State = tuple[Tensor, ...]


class _Gates:
    """One layer in one direction: quantizer, quantized weight [gates, inputs + hidden], biases."""

    def __init__(self, quantizer: TensorQuantizer, weight: Tensor, b_ih: Tensor | None, b_hh: Tensor | None):
        self.quantizer, self.weight, self.b_ih, self.b_hh = quantizer, weight, b_ih, b_hh

    def lstm(self, x: Tensor, state: State) -> State:
        """Compute one LSTM step: x [N, inputs], state (h, c) [N, hidden] each; return the next state."""
        h, c = state
        of_x, of_h = self._products(x, h)
        i, f, g, o = (of_x + of_h).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def gru(self, x: Tensor, state: State) -> State:
        """Compute one GRU step: x [N, inputs], state (h,) [N, hidden]; return the next state.

        The reset gate multiplies the hidden half of the new gate alone, hence two products.
        """
        (h,) = state
        of_x, of_h = self._products(x, h)
        r_x, z_x, n_x = of_x.chunk(3, 1)
        r_h, z_h, n_h = of_h.chunk(3, 1)
        z = torch.sigmoid(z_x + z_h)
        n = torch.tanh(n_x + torch.sigmoid(r_x + r_h) * n_h)
        return ((1 - z) * n + z * h,)

    def _products(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the gates of x and of h, [N, gates * hidden] each: two products, as torch forms them."""
        sizes = [x.shape[1], h.shape[1]]
        quant_x, quant_h = torch.split(self.quantizer(torch.cat((x, h), 1)), sizes, 1)
        w_ih, w_hh = torch.split(self.weight, sizes, 1)
        return F.linear(quant_x, w_ih, self.b_ih), F.linear(quant_h, w_hh, self.b_hh)


class RecurrentLayers(QuantizedLayer):
    """Base of quantized layers with a state: a tuple, (h, c) or (h,), of [layers, N, hidden] each."""

    def init_quantizer(
        self,
        quant_desc_input: QuantDescriptor,
        quant_desc_weight: QuantDescriptor,
        num_layers: int | None = None,
    ) -> None:
        """Create as many pairs of quantizers as `quantizers_needed`, unless `num_layers` says otherwise."""
        if reason := self.why_unsupported():
            raise UnsupportedError(
                type(self).__name__, reason, "proj_size=0", "project with a Linear behind it"
            )
        super().init_quantizer(quant_desc_input, quant_desc_weight, num_layers or self.quantizers_needed())

    def quantizers_needed(self) -> int:
        """Return the number of quantizer pairs of all layers."""
        raise NotImplementedError

    def why_unsupported(self: Any) -> str:
        """Return why this module cannot be quantized; "" where it can."""
        return f"proj_size={self.proj_size}" if self.proj_size else ""

    def _suffixes(self: Any) -> list[str]:
        ends = ("", "_reverse") if self.bidirectional else ("",)
        return [f"_l{layer}{end}" for layer in range(self.num_layers) for end in ends]

    def _run(self, x: Tensor, batch_sizes: Tensor | None, state: State) -> tuple[Tensor, State]:
        """Run all layers over x [steps, N, inputs], or over the data of a packed sequence with
        `batch_sizes`."""
        raise NotImplementedError

    def run_layers(self, input: Tensor | PackedSequence, hx: State | None) -> tuple[Any, State]:
        """Run all layers; return the outputs of the last, laid out as `input`, and the last states of all."""
        with engine_functions(self):  # type: ignore[arg-type]
            if isinstance(input, PackedSequence):
                return self._forward_packed(input, hx)
            return self._forward_dense(input, hx)

    def _forward_packed(self: Any, packed: PackedSequence, hx: State | None) -> tuple[PackedSequence, State]:
        data, batch_sizes, sorted_indices, unsorted_indices = packed
        state = self._start(data, _batch_of(batch_sizes), hx, sorted_indices)
        self._check(data, state, batch_sizes)
        data, state = self._run(data, batch_sizes, state)
        out = PackedSequence(data, batch_sizes, sorted_indices, unsorted_indices)
        return out, _permute_batch(state, unsorted_indices)

    def _forward_dense(self: Any, input: Tensor, hx: State | None) -> tuple[Tensor, State]:
        rank = input.dim()
        if rank not in (2, 3) or any(part.dim() != rank for part in hx or ()):
            raise QuantValueError(
                type(self).__name__,
                f"input of shape {tuple(input.shape)}, states {[tuple(part.shape) for part in hx or ()]}",
                "3-D input and states, or 2-D ones without a batch",
                "add or drop the batch dimension in all of them",
            )
        if rank == 2:
            input, hx = input.unsqueeze(1), None if hx is None else tuple(part.unsqueeze(1) for part in hx)
        elif self.batch_first:
            input = input.transpose(0, 1)
        if input.shape[0] == 0:
            raise QuantValueError(
                type(self).__name__, "no time steps", "at least one", "drop empty sequences"
            )
        state = self._start(input, input.shape[1], hx, None)
        self._check(input, state, None)
        output, state = self._run(input, None, state)
        if rank == 2:
            return output.squeeze(1), tuple(part.squeeze(1) for part in state)
        return output.transpose(0, 1) if self.batch_first else output, state

    def _start(self: Any, input: Tensor, batch: int, hx: State | None, order: Tensor | None) -> State:
        if hx is not None:
            return _permute_batch(hx, order)
        zeros = input.new_zeros(len(self._suffixes()), batch, self.hidden_size)
        return (zeros, zeros) if self.mode == "LSTM" else (zeros,)

    def _check(self: Any, input: Tensor, state: State, batch_sizes: Tensor | None) -> None:
        """Check the sizes of the time-first `input` and of each state, with torch's own messages."""
        self.check_input(input, batch_sizes)
        batch = input.shape[1] if batch_sizes is None else _batch_of(batch_sizes)
        want = (len(self._suffixes()), batch)
        for part in state:
            self.check_hidden_size(part, (*want, self.hidden_size))


def _batch_of(batch_sizes: Tensor) -> int:
    """Return the number of packed sequences; in a trace, where batches are of any size, that is no tensor."""
    first = batch_sizes[0]
    return int(first) if isinstance(first, Tensor) else first


class TwoStates(RecurrentLayers):
    """An LSTM's call: (h, c) in and out."""

    def forward(
        self, input: Tensor | PackedSequence, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor | PackedSequence, State]:
        return self.run_layers(input, hx)


class OneState(RecurrentLayers):
    """The call of a GRU or an RNN: h in and out."""

    def forward(
        self, input: Tensor | PackedSequence, hx: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        output, (h,) = self.run_layers(input, None if hx is None else (hx,))
        return output, h


class _QuantizedRecurrent(RecurrentLayers):
    """The part that LSTM and GRU share."""

    default_quant_desc_weight = QUANT_DESC_8BIT_LINEAR_WEIGHT_PER_ROW

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Load the state of a pickle, ours or the old library's, which had no flat weights."""
        if "_flat_weights" not in state:
            names = [name for layer in state["_all_weights"] for name in layer]
            flat = [state["_parameters"].get(name) for name in names]
            state = {"proj_size": 0, **state, "_flat_weights_names": names, "_flat_weights": flat}
        super().__setstate__(state)  # type: ignore[misc]

    def quantizers_needed(self) -> int:
        """Return the number of quantizer pairs: one for each layer and direction."""
        return len(self._suffixes())

    def quantized_weights(self: Any) -> dict[str, Tensor]:
        weights: dict[str, Tensor] = {}
        for suffix, quantizer in zip(self._suffixes(), self._weight_quantizers, strict=True):
            weights |= _split_quantized(self, quantizer, suffix)
        return weights

    def _gates(self: Any) -> list[_Gates]:
        pairs = zip(self._suffixes(), self._input_quantizers, self._weight_quantizers, strict=True)
        return [_gates_of(self, quant_x, quant_w, suffix) for suffix, quant_x, quant_w in pairs]

    def _run(self: Any, x: Tensor, batch_sizes: Tensor | None, state: State) -> tuple[Tensor, State]:
        """Step by step: one [N_t, inputs] per time, N_t descending."""
        packed = batch_sizes is not None
        steps = list(torch.split(x, batch_sizes.tolist()) if batch_sizes is not None else x.unbind(0))
        gates, directions, last = self._gates(), 2 if self.bidirectional else 1, []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                index = layer * directions + direction
                step = getattr(gates[index], self.mode.lower())
                run = _run_backward if direction else _run_forward
                direction_output, final = run(step, steps, tuple(part[index] for part in state))
                outputs.append(direction_output)
                last.append(final)
            steps = [torch.cat(parts, 1) for parts in zip(*outputs, strict=True)]
            if layer < self.num_layers - 1 and self.dropout:
                steps = [F.dropout(step, self.dropout, self.training) for step in steps]
        output = torch.cat(steps) if packed else torch.stack(steps)
        return output, tuple(torch.stack(parts) for parts in zip(*last, strict=True))


class QuantLSTM(_QuantizedRecurrent, TwoStates, nn.LSTM):  # type: ignore[misc]
    """`torch.nn.LSTM`, quantized: its arguments (but `proj_size`), `quant_desc_input`, `quant_desc_weight`.

    Batched and unbatched, batch-first, bidirectional and packed input, as torch has them.
    """


class QuantGRU(_QuantizedRecurrent, OneState, nn.GRU):  # type: ignore[misc]
    """`torch.nn.GRU`, quantized: its arguments, `quant_desc_input` and `quant_desc_weight`.

    Batched and unbatched, batch-first, bidirectional and packed input, as torch has them.
    """


class _QuantizedCell(QuantizedLayer):
    """The part that both cells share."""

    default_quant_desc_weight = QUANT_DESC_8BIT_LINEAR_WEIGHT_PER_ROW

    def quantized_weights(self) -> dict[str, Tensor]:
        return _split_quantized(self, self._weight_quantizer, "")

    def _step(self: Any, kind: str, input: Tensor, state: Sequence[Tensor] | None, parts: int) -> State:
        rank = input.dim()
        if rank not in (1, 2) or any(part.dim() != rank for part in state or ()):
            raise QuantValueError(
                type(self).__name__,
                f"input of shape {tuple(input.shape)}, states {[tuple(part.shape) for part in state or ()]}",
                "2-D input and states, or 1-D ones without a batch",
                "add or drop the batch dimension in all of them",
            )
        x = input.unsqueeze(0) if rank == 1 else input
        if state is None:
            h = (x.new_zeros(len(x), self.hidden_size),) * parts
        else:
            h = tuple(part.unsqueeze(0) if rank == 1 else part for part in state)
        gates = _gates_of(self, self._input_quantizer, self._weight_quantizer, "")
        new: State = getattr(gates, kind)(x, h)
        return tuple(part.squeeze(0) for part in new) if rank == 1 else new


class QuantLSTMCell(_QuantizedCell, nn.LSTMCell):
    """`torch.nn.LSTMCell`, quantized: its arguments, `quant_desc_input` and `quant_desc_weight`."""

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        return self._step("lstm", input, hx, 2)  # type: ignore[return-value]


class QuantGRUCell(_QuantizedCell, nn.GRUCell):
    """`torch.nn.GRUCell`, quantized: its arguments, `quant_desc_input` and `quant_desc_weight`."""

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step("gru", input, None if hx is None else (hx,), 1)[0]


def _gates_of(owner: nn.Module, quant_x: TensorQuantizer, quant_w: TensorQuantizer, suffix: str) -> _Gates:
    weight = quant_w(_join_weights(owner, suffix))
    b_ih, b_hh = (getattr(owner, f"bias_{part}{suffix}", None) for part in ("ih", "hh"))
    return _Gates(quant_x, weight, b_ih, b_hh)


def _join_weights(owner: nn.Module, suffix: str) -> Tensor:
    return torch.cat([getattr(owner, f"weight_{part}{suffix}") for part in ("ih", "hh")], 1)


def _split_quantized(owner: Any, quantizer: TensorQuantizer, suffix: str) -> dict[str, Tensor]:
    names = [f"weight_{part}{suffix}" for part in ("ih", "hh")]
    widths = [getattr(owner, name).shape[1] for name in names]
    return dict(zip(names, quantizer(_join_weights(owner, suffix)).split(widths, 1), strict=True))


def _run_forward(step: Any, inputs: list[Tensor], state: State) -> tuple[list[Tensor], State]:
    """Run forward in time; a sequence that ends leaves the batch with its last state, as N_t falls."""
    outputs, ended = [], []
    for x in inputs:
        if len(x) < len(state[0]):
            ended.append(tuple(part[len(x) :] for part in state))
            state = tuple(part[: len(x)] for part in state)
        state = step(x, state)
        outputs.append(state[0])
    ended.append(state)
    return outputs, tuple(torch.cat(parts[::-1]) for parts in zip(*ended, strict=True))


def _run_backward(step: Any, inputs: list[Tensor], start: State) -> tuple[list[Tensor], State]:
    """Run back in time; a shorter sequence joins the batch at its own end, with its start state."""
    outputs, state = [], tuple(part[: len(inputs[-1])] for part in start)
    for x in reversed(inputs):
        if len(x) > len(state[0]):
            joined = slice(len(state[0]), len(x))
            state = tuple(torch.cat((part, new[joined])) for part, new in zip(state, start, strict=True))
        state = step(x, state)
        outputs.append(state[0])
    return outputs[::-1], state


def _permute_batch(state: State, order: Tensor | None) -> State:
    return state if order is None else tuple(part.index_select(1, order) for part in state)


LSTM = QuantLSTM
LSTMCell = QuantLSTMCell
GRU = QuantGRU
GRUCell = QuantGRUCell
