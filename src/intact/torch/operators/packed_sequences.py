"""Trace packed sequences as padded tensors with lengths.

`pack_padded_sequence` makes as many rows as the lengths add up to. That number depends on values, so no trace
and no file can hold it. A trace keeps all rows of the padded tensor instead, also those behind the end of a
sequence, and recurrent layers get the lengths as ONNX's `sequence_lens`. Functions that compute each row by
itself may stand in between. `pad_packed_sequence` returns as many steps as the padded tensor had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from intact.errors import UnsupportedError
from intact.graph.ops import VARIANTS
from intact.torch.private_torch import pack_padded_sequence, pad_packed_sequence, pytree

__all__ = ["PACK", "PackedInTrace", "has_packed", "run_padded"]

PACK, _PAD = "_pack_padded_sequence", "_pad_packed_sequence"
_READ_SHAPE = {
    "__get__", "size", "dim", "numel", "stride", "is_floating_point", "is_contiguous", "__len__", "new_zeros",
    "new_ones", "new_full", "new_empty",
}  # fmt: skip
"""Functions that read only a tensor's type and sizes."""
_BY_ROW = {
    "linear", "relu", "relu_", "leaky_relu", "dropout", "feature_dropout", "fake_quantize", "edge", "clone",
    "contiguous", "detach", "to", "float",
    *(f"{name}{inplace}" for _, variant in VARIANTS for name in variant.torch for inplace in ("", "_")),
}  # fmt: skip
"""Functions that compute each row by itself."""

Layers = Callable[..., "tuple[Tensor, ...] | None"]


@dataclass(frozen=True)
class _Packed:
    """Describes one packed sequence.

    Attributes:
        sizes: The tensor by which its users refer to it: how many sequences each step has, here always all.
        lengths: How many steps each sequence has, integers [batch].
        steps: Steps of the padded tensor.
        batch: Sequences in the padded tensor.
    """

    sizes: Tensor
    lengths: Tensor
    steps: int
    batch: int

    def unflatten(self, rows: Tensor) -> Tensor:
        """Reshape rows [steps * batch, ...] to [steps, batch, ...]."""
        return rows.reshape(self.steps, self.batch, *rows.shape[1:])


class PackedInTrace:
    """Holds the packed sequences of one trace, keyed by the identity of the tensors that stand for them."""

    def __init__(self) -> None:
        self._by_sizes: dict[int, _Packed] = {}
        self._rows: dict[int, Tensor] = {}
        self._zero_padded: set[int] = set()
        """Rows that are 0 behind the end of each sequence."""

    def concerns(self, name: str, args: tuple[Any, ...]) -> bool:
        """Return whether a call makes a packed sequence, or reads a part of one."""
        if not self._rows:
            return name == PACK
        return name == PACK or any(id(x) in self._rows or id(x) in self._by_sizes for x in args[:2])

    def perform(
        self, name: str, layers: Layers, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Make the call.

        Args:
            name: Of the function.
            layers: Runs recurrent layers over [steps, batch, inputs] with `lengths`; None where it cannot.
            func, args, kwargs: The call.
        Raises:
            UnsupportedError: It reads rows, and computes something else than each by itself.
        """
        if name == PACK:
            return self._pack(*args, **kwargs)
        packed = self._by_sizes.get(id(args[1])) if len(args) > 1 else None
        if packed is None:
            if name == "__getitem__" and id(args[0]) in self._by_sizes and _is_first(args[1]):
                return self._by_sizes[id(args[0])].batch
            return self._by_row(name, func, args, kwargs)
        if name == _PAD:
            return self._pad(packed, *args, **kwargs)
        x, _, *layer_args = args
        result = (
            layers(name, packed.unflatten(x), *layer_args, lengths=packed.lengths)
            if len(layer_args) == 7
            else None
        )
        if result is None:
            raise _packed_rows_error(f"{name} with projections, or with dropout in training,")
        y, *states = result
        return self._register(y.flatten(0, 1), zero_padded=True), *states

    def _pack(self, x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
        x = x.transpose(0, 1) if batch_first else x
        steps, batch = x.shape[:2]
        sizes = torch.full((steps,), batch, dtype=torch.int64)
        self._by_sizes[id(sizes)] = _Packed(sizes, lengths, steps, batch)
        return self._register(x.flatten(0, 1)), sizes

    def _pad(
        self, packed: _Packed, rows: Tensor, sizes: Tensor, batch_first: bool, value: float, steps: int
    ) -> tuple[Tensor, Tensor]:
        x = packed.unflatten(rows)
        if value or id(rows) not in self._zero_padded:
            inside = torch.arange(packed.steps)[:, None] < packed.lengths
            x = torch.where(inside.reshape(*inside.shape, *[1] * (x.dim() - 2)), x, value)
        if steps != packed.steps:
            x = F.pad(x, (*[0] * 2 * (x.dim() - 1), 0, steps - packed.steps), value=value)
        return x.transpose(0, 1) if batch_first else x, packed.lengths

    def _by_row(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        plain = name.partition(".")[0]
        if plain in _READ_SHAPE or id(args[0]) in self._by_sizes:
            return func(*args, **kwargs)
        if plain not in _BY_ROW or id(args[0]) not in self._rows:
            raise _packed_rows_error(plain)
        return self._register(func(*args, **kwargs))

    def _register(self, rows: Tensor, *, zero_padded: bool = False) -> Tensor:
        self._rows[id(rows)] = rows  # alive, so that its id is its own
        if zero_padded:
            self._zero_padded.add(id(rows))
        return rows


def _is_first(index: Any) -> bool:
    return isinstance(index, int) and index == 0


def _packed_rows_error(name: str) -> UnsupportedError:
    return UnsupportedError(
        "model", f"{name} on the rows of a packed sequence, whose number only values say",
        "recurrent layers, pad_packed_sequence, and functions of each row by itself",
        "call pad_packed_sequence first, or pack behind it",
    )  # fmt: skip


def has_packed(output: Any) -> bool:
    """Return whether a module's output holds a packed sequence."""
    leaves = pytree.tree_leaves(output, is_leaf=lambda x: isinstance(x, PackedSequence))
    return any(isinstance(x, PackedSequence) for x in leaves)


def run_padded(
    cell: str, x: Tensor, states: Sequence[Tensor], params: Sequence[Tensor], biases: bool,
    bidirectional: bool, lengths: Tensor | None = None,
) -> list[Tensor]:  # fmt: skip
    """Run one recurrent layer by torch's function, packed where rows have lengths.

    Args:
        cell: "lstm", "gru", "rnn_tanh" or "rnn_relu".
        x: [steps, batch, inputs].
        states: [directions, batch, hidden]: h, and c of an LSTM.
        params: For each direction the weights of inputs, those of states, and two biases or none.
        biases: Whether there are two.
        bidirectional: Whether there are two directions.
        lengths: Integers [batch], descending: how many steps each row has; None: all of them.
    Returns:
        All states [steps, batch, directions * hidden], 0 behind the end of a row, and the last ones, as
        `states`.
    """
    hx = tuple(states) if cell == "lstm" else states[0]
    run, options = getattr(torch, cell), (biases, 1, 0.0, False, bidirectional)
    if lengths is None:
        return list(run(x, hx, params, *options, False))
    rows, sizes = pack_padded_sequence(x, lengths, False)
    y, *last = run(rows, sizes, hx, params, *options)
    return [pad_packed_sequence(y, sizes, False, 0.0, x.shape[0])[0], *last]
