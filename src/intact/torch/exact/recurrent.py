"""Compute recurrent layers: products of the inputs, then the recurrence over the states (N52)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from intact.engine.steps import Recurrent
from intact.torch.exact.engine_steps import run_step
from intact.torch.exact.exact_operator import exact, register
from intact.torch.exact.matrix_products import linear
from intact.torch.exact.tensor_grids import TensorGrids
from intact.torch.operators.packed_sequences import run_padded

__all__ = ["layers"]

_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
"""PyTorch's gates in ONNX's order."""

_CELLS = {"lstm": "lstm", "gru": "gru_reset_after", "rnn_tanh": "rnn_tanh", "rnn_relu": "rnn_relu"}


def layers(
    grids: TensorGrids,
    cell: str,
    x: Tensor,
    states: Sequence[Tensor],
    params: Sequence[Tensor],
    biases: bool,
    count: int,
    bidirectional: bool,
    lengths: Tensor | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """Run all layers over x [steps, batch, inputs].

    Args:
        cell: Name of torch's function.
        states: [count * directions, batch, hidden]: h, and c of an LSTM.
        params: By layer and direction the weights of inputs, those of states, and two biases or none.
        lengths: int64 [batch], descending: how many steps each row has; None: all of them.
    Returns:
        The states of the last layer [steps, batch, directions * hidden], and the last ones, as `states`.
    """
    directions, each = 2 if bidirectional else 1, len(params) // (count * (2 if bidirectional else 1))
    last: list[list[Tensor]] = []
    for layer in range(count):
        first = layer * directions
        own = [params[each * (first + d) : each * (first + d + 1)] for d in range(directions)]
        parts = [state[first : first + directions] for state in states]
        x, ends = _layer(grids, cell, x, parts, own, biases, lengths)
        last.append(ends)
    return x, [torch.cat(ends) for ends in zip(*last, strict=True)]


def _layer(
    grids: TensorGrids, cell: str, x: Tensor, states: Sequence[Tensor], params: Sequence[Sequence[Tensor]],
    biases: bool, lengths: Tensor | None,
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    hidden, directions = params[0][1].shape[1], len(params)
    starts, apart = [], list[Tensor]()
    for direction_params in params:
        bias = None
        if biases:
            inputs, other = direction_params[2].double(), direction_params[3].double()
            if cell == "gru":
                apart.append(direction_params[3][2 * hidden :])
                other = torch.cat([other[: 2 * hidden], other.new_zeros(hidden)])
            bias = (inputs + other).float()
        starts.append(linear(grids, x, direction_params[0], bias))
    weights = torch.stack([direction_params[1] for direction_params in params])
    operands = [torch.cat(starts, -1), weights, *states, *([torch.stack(apart)] if apart else [])]
    operands += [] if lengths is None else [lengths]
    flat = exact(
        "recurrence", *operands, cell=cell, states=len(states), apart=bool(apart), packed=lengths is not None
    )
    steps, batch = x.shape[:2]
    size = steps * batch * directions * hidden
    y = flat[:size].reshape(steps, batch, directions * hidden)
    ends = flat[size:].reshape(len(states), directions, batch, hidden)
    return y, list(ends.unbind(0))


def _like(
    start: Tensor, weights: Tensor, *rest: Tensor, cell: str, states: int, apart: bool, packed: bool
) -> Tensor:
    """Compute the recurrence by torch's function, on inputs that were multiplied by their weights already."""
    directions, rows, hidden = weights.shape
    eye = torch.eye(directions * rows, dtype=start.dtype, device=start.device)
    params: list[Tensor] = []
    for d in range(directions):
        params += [eye[d * rows : (d + 1) * rows], weights[d]]
        if apart:
            before = start.new_zeros(rows - hidden)
            params += [start.new_zeros(rows), torch.cat([before, rest[states][d]])]
    lengths = rest[-1] if packed else None
    outputs = run_padded(cell, start, rest[:states], params, apart, directions == 2, lengths)
    return torch.cat([output.reshape(-1) for output in outputs])


@register("recurrence", _like)
def _recurrence(
    start: NDArray[Any], weights: NDArray[Any], *rest: NDArray[Any], cell: str, states: int, apart: bool,
    packed: bool,
) -> NDArray[Any]:  # fmt: skip
    directions, rows, _ = weights.shape
    order = np.arange(rows).reshape(len(_GATES[cell]), -1)[list(_GATES[cell])].reshape(-1)
    places = (np.arange(directions)[:, None] * rows + order).reshape(-1)
    operands = {"x": np.ascontiguousarray(start[..., places])}
    operands |= dict(zip(("h", "c"), rest[:states], strict=False))
    operands |= {"lengths": rest[-1].astype(np.int32)} if packed else {}
    constants = {"weight": np.ascontiguousarray(weights[:, order])}
    if apart:
        constants["bias"] = np.ascontiguousarray(rest[states])
    makes = {"y": 4, "last_h": 3} | ({"last_c": 3} if states == 2 else {})
    reverse = (False, True)[:directions]
    y, *ends = run_step(Recurrent, operands, makes, constants, cell=_CELLS[cell], reverse=reverse)
    return np.concatenate([np.moveaxis(y, 1, 2).reshape(-1), *(end.reshape(-1) for end in ends)])
