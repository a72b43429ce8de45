"""LSTM and GRU whose products run on weights in blocks, and their cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from intact.errors import UnsupportedError
from intact.torch.block_weights.layers import BlockWeightLinear

__all__ = ["RECURRENT", "BlockWeightCell", "BlockWeightRecurrent"]

States = tuple[Tensor, ...]
_Linear = Callable[[nn.Linear], BlockWeightLinear]


def _lstm(x: Tensor, h: Tensor, states: States) -> States:
    """Return the next states: gates i, f, g, o, of x and of h."""
    i, f, g, o = (x + h).chunk(4, -1)
    c = f.sigmoid() * states[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(x: Tensor, h: Tensor, states: States) -> States:
    """Return the next state: gates r, z, n; r multiplies the product of h with its bias."""
    (x_r, x_z, x_n), (h_r, h_z, h_n) = x.chunk(3, -1), h.chunk(3, -1)
    n = ((x_r + h_r).sigmoid() * h_n + x_n).tanh()
    z = (x_z + h_z).sigmoid()
    return ((1 - z) * n + z * states[0],)


def _rnn(x: Tensor, h: Tensor, states: States, function: Callable[[Tensor], Tensor]) -> States:
    return (function(x + h),)


_CELLS: dict[type, Callable[[Tensor, Tensor, States], States]] = {
    nn.LSTM: _lstm, nn.GRU: _gru, nn.LSTMCell: _lstm, nn.GRUCell: _gru,
}  # fmt: skip
RECURRENT = (nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell)
"""Types of modules with a class here."""


class BlockWeightRecurrent(nn.Module):
    """Computes an `nn.LSTM` or `nn.GRU` with int8 activations and weights in blocks; called as that is.

    Each step quantizes its input and the state in front of it by ranges of their own (N68). The functions
    between the products are PyTorch's. It is for inference.

    Attributes:
        inputs, states: Products of x and of the state, by layer and direction.
    """

    def __init__(self, module: nn.LSTM | nn.GRU, convert: _Linear) -> None:
        """Quantize the weights of a module.

        Args:
            module: Without projections.
            convert: Makes the layer of a linear one.
        Raises:
            UnsupportedError: It has projections.
            QuantValueError: As `convert`.
        """
        super().__init__()
        if module.proj_size:
            raise UnsupportedError(
                "proj_size", str(module.proj_size), "0", "leave this layer in float: name the others"
            )
        self.kind, self._cell = type(module).__name__, _CELLS[type(module)]
        self.hidden_size, self.num_layers = module.hidden_size, module.num_layers
        self.batch_first, self.directions = module.batch_first, 2 if module.bidirectional else 1
        suffixes = [f"_l{layer}{end}" for layer in range(module.num_layers)
                    for end in ("", "_reverse")[: self.directions]]  # fmt: skip
        self.inputs, self.states = (
            nn.ModuleList(convert(_linear(module, f"{kind}{suffix}")) for suffix in suffixes)
            for kind in ("ih", "hh")
        )

    def forward(
        self, x: Tensor | PackedSequence, hx: Tensor | tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor | tuple[Tensor, ...]]:
        """Compute it; arguments and results as those of PyTorch's module."""
        packed = x if isinstance(x, PackedSequence) else None
        if isinstance(x, PackedSequence):
            rows, sizes = x.data, x.batch_sizes.tolist()
            is_single, steps = False, 0
        else:
            is_single = x.dim() == 2
            x = x.unsqueeze(0 if self.batch_first else 1) if is_single else x
            x = x.transpose(0, 1) if self.batch_first else x
            steps, batch = x.shape[:2]
            rows, sizes = x.reshape(-1, x.shape[-1]), [batch] * steps
        states = self._first_states(hx, rows, sizes, packed, is_single)
        last: list[States] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(self.directions):
                index = layer * self.directions + direction
                own = tuple(state[index] for state in states)
                y, ends = self._run(index, rows, sizes, own, backwards=direction == 1)
                outputs.append(y)
                last.append(ends)
            rows = torch.cat(outputs, -1)
        ends_by_state = tuple(torch.stack(parts) for parts in zip(*last, strict=True))
        if packed is not None:
            order = packed.unsorted_indices
            ends_by_state = tuple(s if order is None else s[:, order] for s in ends_by_state)
            indices = packed.sorted_indices, packed.unsorted_indices
            return PackedSequence(rows, packed.batch_sizes, *indices), self._pack_states(ends_by_state)
        y = rows.reshape(steps, -1, rows.shape[-1])
        y = y.transpose(0, 1) if self.batch_first else y
        if is_single:
            y = y.squeeze(0 if self.batch_first else 1)
            ends_by_state = tuple(state[:, 0] for state in ends_by_state)
        return y, self._pack_states(ends_by_state)

    def _first_states(
        self, hx: Tensor | tuple[Tensor, ...] | None, rows: Tensor, sizes: Sequence[int],
        packed: PackedSequence | None, is_single: bool,
    ) -> States:  # fmt: skip
        """Return the states in front of the first step, [layers * directions, batch, hidden] each."""
        count = 2 if self.kind == "LSTM" else 1
        if hx is None:
            zeros = rows.new_zeros(len(self.inputs), sizes[0], self.hidden_size)
            return (zeros,) * count
        states = hx if isinstance(hx, tuple) else (hx,)
        if is_single:
            states = tuple(state.unsqueeze(1) for state in states)
        if packed is not None and packed.sorted_indices is not None:
            states = tuple(state[:, packed.sorted_indices] for state in states)
        return states

    def _pack_states(self, states: States) -> Tensor | tuple[Tensor, ...]:
        return states if self.kind == "LSTM" else states[0]

    def _run(
        self, index: int, rows: Tensor, sizes: Sequence[int], states: States, *, backwards: bool
    ) -> tuple[Tensor, States]:
        """Run one layer in one direction over rows, of which `sizes` belong to each step; the first sequences
        are the longest.
        """
        products, weights = self.inputs[index](rows).split(list(sizes)), self.states[index]
        outputs: list[Tensor] = [rows] * len(sizes)
        for step in reversed(range(len(sizes))) if backwards else range(len(sizes)):
            count = sizes[step]
            now = tuple(state[:count] for state in states)
            after = self._cell(products[step], weights(now[0]), now)
            outputs[step] = after[0]
            pairs = zip(after, states, strict=True)
            states = tuple(new if count == len(old) else torch.cat([new, old[count:]]) for new, old in pairs)
        return torch.cat(outputs), states

    def extra_repr(self) -> str:
        """Return what `print` shows of it."""
        return f"{self.kind}, hidden_size={self.hidden_size}, directions={self.directions}"


class BlockWeightCell(nn.Module):
    """Computes an `nn.LSTMCell`, `nn.GRUCell` or `nn.RNNCell` as `BlockWeightRecurrent` does a step.

    Attributes:
        inputs, states: Products of x and of the state.
    """

    def __init__(self, module: nn.LSTMCell | nn.GRUCell | nn.RNNCell, convert: _Linear) -> None:
        """Quantize the weights of a module; arguments as for `BlockWeightRecurrent`."""
        super().__init__()
        self.hidden_size, self.has_memory = module.hidden_size, isinstance(module, nn.LSTMCell)
        self._cell: Callable[[Tensor, Tensor, States], States]
        if isinstance(module, nn.RNNCell):
            self._cell = partial(_rnn, function=torch.tanh if module.nonlinearity == "tanh" else torch.relu)
        else:
            self._cell = _CELLS[type(module)]
        self.inputs, self.states = (convert(_linear(module, kind)) for kind in ("ih", "hh"))

    def forward(
        self, x: Tensor, hx: Tensor | tuple[Tensor, Tensor] | None = None
    ) -> Tensor | tuple[Tensor, ...]:
        """Compute a step; arguments and results as those of PyTorch's module."""
        if hx is None:
            zeros = x.new_zeros(*x.shape[:-1], self.hidden_size)
            hx = (zeros, zeros) if self.has_memory else zeros
        states = hx if isinstance(hx, tuple) else (hx,)
        after = self._cell(self.inputs(x), self.states(states[0]), states)
        return after if self.has_memory else after[0]


def _linear(module: nn.Module, suffix: str) -> nn.Linear:
    """Return one product of a recurrent module, with its bias, as a linear layer."""
    weight: nn.Parameter = getattr(module, f"weight_{suffix}")
    bias: nn.Parameter | None = getattr(module, f"bias_{suffix}", None)
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    linear.weight = weight
    linear.register_parameter("bias", bias)
    return linear
