"""LSTM, GRU and RNN whose inputs and weights of inputs are quantized, and whose states stay float.

What graph mode makes of `torch.nn`'s recurrent layers. Each layer has one input quantizer, and one weight
quantizer over the weights of its inputs, [directions, gates * hidden, inputs], with a scale for each row of
all directions: what the pairs of an ONNX file can say (decision 25). A layer is one call of PyTorch's fused
function in both modes, and one node of the file. `QuantLSTM` and `QuantGRU`, the old library's, round
their states too, step by step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from intact.torch.nn.modules.quant_rnn import OneState, RecurrentLayers, State, TwoStates
from intact.torch.tensor_quant import QuantDescriptor

__all__ = ["FusedQuantGRU", "FusedQuantLSTM", "FusedQuantRNN"]


class _Fused(RecurrentLayers):
    """The part that all three share."""

    default_quant_desc_weight = QuantDescriptor(num_bits=8, axis=1)

    def quantizers_needed(self: Any) -> int:
        """Return the number of layers: each needs one pair of quantizers."""
        return int(self.num_layers)

    def quantized_weights(self: Any) -> dict[str, Tensor]:
        names = [[f"weight_ih{suffix}" for suffix in self._layer(i)] for i in range(self.num_layers)]
        return {
            name: weight
            for layer, layer_names in enumerate(names)
            if not self._weight_quantizers[layer]._disabled
            for name, weight in zip(layer_names, self._input_weights(layer), strict=True)
        }

    def _layer(self: Any, layer: int) -> list[str]:
        """Return the name suffixes of a layer's parameters, for each direction."""
        directions = 2 if self.bidirectional else 1
        return list(self._suffixes()[layer * directions : (layer + 1) * directions])

    def _input_weights(self: Any, layer: int) -> tuple[Tensor, ...]:
        """Return the weights of a layer's inputs for each direction, quantized."""
        weights = [getattr(self, f"weight_ih{suffix}") for suffix in self._layer(layer)]
        quantizer = self._weight_quantizers[layer]
        if quantizer._disabled:
            return tuple(weights)
        return tuple(quantizer(torch.stack(weights)).unbind(0))

    def _parameters_of(self: Any, layer: int) -> list[Tensor]:
        """Return the arguments of the fused function: for each direction the weights, and the biases."""
        parameters = []
        for suffix, weight in zip(self._layer(layer), self._input_weights(layer), strict=True):
            parameters += [weight, getattr(self, f"weight_hh{suffix}")]
            if self.bias:
                parameters += [getattr(self, f"bias_{part}{suffix}") for part in ("ih", "hh")]
        return parameters

    def _run(self: Any, x: Tensor, batch_sizes: Tensor | None, state: State) -> tuple[Tensor, State]:
        fused = getattr(torch, self.mode.lower())
        directions, last = 2 if self.bidirectional else 1, []
        for layer in range(self.num_layers):
            x = self._input_quantizers[layer](x)
            own = [part[layer * directions : (layer + 1) * directions] for part in state]
            read = (tuple(own) if len(own) > 1 else own[0], self._parameters_of(layer), self.bias, 1, 0.0)
            if batch_sizes is None:
                x, *ends = fused(x, *read, self.training, self.bidirectional, False)
            else:
                x, *ends = fused(x, batch_sizes, *read, self.training, self.bidirectional)
            last.append(ends)
            if layer < self.num_layers - 1 and self.dropout:
                x = F.dropout(x, self.dropout, self.training)
        parts = zip(*last, strict=True)
        return x, tuple(states[0] if len(states) == 1 else torch.cat(states) for states in parts)


class FusedQuantLSTM(_Fused, TwoStates, nn.LSTM):  # type: ignore[misc]
    """`torch.nn.LSTM` with quantized inputs: its arguments, `quant_desc_input` and `quant_desc_weight`."""


class FusedQuantGRU(_Fused, OneState, nn.GRU):  # type: ignore[misc]
    """`torch.nn.GRU` with quantized inputs: its arguments, `quant_desc_input` and `quant_desc_weight`."""


class FusedQuantRNN(_Fused, OneState, nn.RNN):  # type: ignore[misc]
    """`torch.nn.RNN` with quantized inputs: its arguments, `quant_desc_input` and `quant_desc_weight`."""
