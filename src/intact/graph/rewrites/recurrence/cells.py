"""Match LSTM, GRU and RNN cells in the body of a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph import ops
from intact.graph.core.constants import Constants
from intact.graph.core.quantization_view import is_op
from intact.graph.rewrites.recurrence.loop_bodies import Carried, Repeat, constant_array, numbers_of

Reals = NDArray[np.float64]
_Sum = dict["ir.Value | None", Reals]
"""Vector -> what it is multiplied by [in, out]; None -> what is added [out]."""


@dataclass(frozen=True)
class Masked:
    """Choice by a mask: ``new`` where it holds, else ``old``.

    Attributes:
        mask: A row of the mask, bool; None where nothing is chosen, and `old` is None.
    """

    mask: ir.Value | None
    new: ir.Value
    old: ir.Value | None


@dataclass(frozen=True)
class RecurrentCell:
    """Values that one step of a recurrent cell makes.

    Attributes:
        op_type: "LSTM", "GRU" or "RNN".
        x: The row that it reads.
        h: The state that it makes, and that is what it makes.
        c: The second state of an LSTM.
        new_h: What it makes of `h`, before a mask.
        mask: Row of the mask: where it is False, states stay; None for all True.
        weights: float32 [1, gates * hidden, in], gates in ONNX's order.
        states: float32 [1, gates * hidden, hidden].
        bias: float32 [1, 2 * gates * hidden].
        attributes: Of the operator, direction and size apart.
    """

    op_type: str
    x: ir.Value
    h: Carried
    c: Carried | None
    new_h: ir.Value
    mask: ir.Value | None
    weights: NDArray[np.float32]
    states: NDArray[np.float32]
    bias: NDArray[np.float32]
    attributes: dict[str, Any]


def find_cell(repeat: Repeat, constants: Constants) -> RecurrentCell | None:
    """Return the cell of a body; None where there is none, or more than one."""
    return _Finder(repeat, constants).find()


def match_mask(repeat: Repeat, constants: Constants, value: ir.Value) -> Masked:
    """Match a choice by a mask where `value` is made; return the value itself where it is none."""
    return _Finder(repeat, constants).choice(value)


class _Finder:
    def __init__(self, repeat: Repeat, constants: Constants) -> None:
        self._repeat, self._constants = repeat, constants

    def find(self) -> RecurrentCell | None:
        states = [state for state in self._repeat.states if not self._is_echo(state)]
        pairs = [(h, c) for h in states for c in states if h is not c]
        if len(states) == 2:
            return next((cell for h, c in pairs if (cell := self._lstm(h, c)) is not None), None)
        if len(states) == 1:
            return self._gru(states[0]) or self._simple(states[0])
        return None

    def _is_echo(self, state: Carried) -> bool:
        """Return whether a state is read only to repeat the last output where a mask hides a step."""
        uses = len(state.read.uses())
        return not uses or (uses == 1 and self.choice(state.next).old is state.read)

    # -- reading

    def _at(self, value: ir.Value | None, *op_types: str) -> ir.Node | None:
        value = self._repeat.source(value)
        node = value.producer() if value is not None else None
        return node if node is not None and is_op(node, *op_types) else None

    def _constant(self, value: ir.Value | None) -> NDArray | None:
        return constant_array(self._repeat.source(value), self._constants)

    def _number(self, value: ir.Value | None) -> float | None:
        array = self._constant(value)
        return float(array.item()) if array is not None and array.size == 1 else None

    def _operands(self, value: ir.Value | None, *op_types: str) -> Iterator[Sequence[ir.Value]]:
        """Yield both operands, in both orders."""
        node = self._at(value, *op_types)
        if node is not None and all(operand is not None for operand in node.inputs):
            both = [operand for operand in map(self._repeat.source, node.inputs) if operand is not None]
            yield both
            yield both[::-1]

    def choice(self, value: ir.Value | None) -> Masked:
        """Match a choice by a mask: a Where, or products with the mask and with its complement."""
        value = self._repeat.source(value)
        assert value is not None
        node = self._at(value, "Where")
        if node is not None and (mask_and_side := self._mask(node.inputs[0])) is not None:
            mask, keeps_old = mask_and_side
            new, old = (self._repeat.source(operand) for operand in node.inputs[1:])
            if new is not None and old is not None:
                return Masked(mask, new, old) if keeps_old else Masked(mask, old, new)
        for a, b in self._operands(value, "Add"):
            for first, new in self._operands(a, "Mul"):
                for second, old in self._operands(b, "Mul"):
                    shows, hides = self._mask(first), self._mask(second)
                    if shows and hides and shows[0] is hides[0] and shows[1] and not hides[1]:
                        return Masked(shows[0], new, old)
        return Masked(None, value, None)

    def _mask(self, value: ir.Value | None) -> tuple[ir.Value, bool] | None:
        """Match a row of bools, and whether `value` is the row or its complement; as bools or as 1 and 0."""
        value = self._repeat.source(value)
        if value in self._repeat.rows and value is not None:
            return (value, True) if value.dtype == ir.DataType.BOOL or self._is_truth(value) else None
        node = self._at(value, "Cast", "Not", "Sub")
        if node is None:
            return None
        if node.op_type == "Sub" and self._number(node.inputs[0]) != 1:
            return None
        mask_and_side = self._mask(node.inputs[-1])
        return (
            mask_and_side
            if mask_and_side is None or node.op_type == "Cast"
            else (mask_and_side[0], not mask_and_side[1])
        )

    def _is_truth(self, value: ir.Value) -> bool:
        return self._repeat.rows[value].dtype == ir.DataType.BOOL

    def _sum(self, value: ir.Value | None) -> _Sum | None:
        """Match a sum of products of vectors with constant weights, and of constants.

        None for anything else.
        """
        value = self._repeat.source(value)
        array = self._constant(value)
        if array is not None:
            return {None: np.asarray(array, np.float64).reshape(-1)}
        node = self._at(value, "Add", "MatMul", "Gemm", "Split", "Slice")
        if node is None or value is None:
            return None
        return _SUMS[node.op_type](self, node, value)

    def _sum_of_add(self, node: ir.Node, value: ir.Value) -> _Sum | None:
        return _add_sums([self._sum(operand) for operand in node.inputs])

    def _product(self, node: ir.Node, value: ir.Value) -> _Sum | None:
        x, weight = self._repeat.source(node.inputs[0]), self._constant(node.inputs[1])
        if weight is None or weight.ndim != 2 or x is None:
            return None
        return {x: weight.astype(np.float64)}

    def _gemm(self, node: ir.Node, value: ir.Value) -> _Sum | None:
        form = ops.Gemm.of(node)
        product = self._product(node, value)
        if product is None or (form.alpha, form.beta) != (1.0, 1.0) or form.transA:
            return None
        if form.transB:
            product = {x: weight.T for x, weight in product.items()}
        return _add_sums([product, *(self._sum(addend) for addend in node.inputs[2:] if addend is not None)])

    def _sum_of_split(self, node: ir.Node, value: ir.Value) -> _Sum | None:
        whole = self._sum(node.inputs[0])
        if whole is None or ops.Split.of(node).axis not in (1, -1):
            return None
        place, width = list(node.outputs).index(value), _width(whole)
        sizes = self._constant(node.inputs[1]) if len(node.inputs) > 1 else None
        if sizes is None:
            sizes = np.full(len(node.outputs), width // len(node.outputs))
        start = int(sizes[:place].sum())
        return None if sizes.sum() != width else _columns(whole, start, start + int(sizes[place]))

    def _slice(self, node: ir.Node, value: ir.Value) -> _Sum | None:
        whole = self._sum(node.inputs[0])
        sources = [self._repeat.source(operand) for operand in node.inputs[1:]]
        start, end, axis, step = [*numbers_of(sources, self._constants), None, None][:4]
        if whole is None or start is None or end is None or axis is None or start.size != 1:
            return None
        if axis.item() not in (1, -1) or (len(sources) > 3 and (step is None or step.item() != 1)):
            return None
        return _columns(whole, *slice(start.item(), end.item()).indices(_width(whole))[:2])

    # -- cells

    def _lstm(self, h: Carried, c: Carried) -> RecurrentCell | None:
        """Match an LSTM: ``c' = sigmoid(f) * c + sigmoid(i) * tanh(g); h' = sigmoid(o) * tanh(c')``."""
        next_h, next_c = self._match_update(h), self._match_update(c)
        if next_h is None or next_c is None or next_h.mask is not next_c.mask:
            return None
        for gate, bent in self._operands(next_h.new, "Mul"):
            output, tanh = self._at(gate, "Sigmoid"), self._at(bent, "Tanh")
            if output is None or tanh is None or self._repeat.source(tanh.inputs[0]) is not next_c.new:
                continue
            for a, b in self._operands(next_c.new, "Add"):
                forget, update = self._match_gate_times_state(a, c.read), self._match_gate_times_candidate(b)
                if forget is not None and update is not None:
                    return self._cell("LSTM", h, c, next_h, [update[0], output.inputs[0], forget, update[1]])
        return None

    def _match_gate_times_state(self, value: ir.Value, state: ir.Value) -> ir.Value | None:
        """Match ``sigmoid(x) * state``: return x."""
        for gate, other in self._operands(value, "Mul"):
            node = self._at(gate, "Sigmoid")
            if node is not None and other is state:
                return node.inputs[0]
        return None

    def _match_gate_times_candidate(self, value: ir.Value) -> tuple[ir.Value | None, ir.Value | None] | None:
        """Match ``sigmoid(x) * tanh(y)``: return x and y."""
        for gate, other in self._operands(value, "Mul"):
            node, candidate = self._at(gate, "Sigmoid"), self._at(other, "Tanh")
            if node is not None and candidate is not None:
                return node.inputs[0], candidate.inputs[0]
        return None

    def _gru(self, h: Carried) -> RecurrentCell | None:
        """Match a GRU: ``h' = z * h + (1 - z) * g``, g as ``tanh(x + r * h)`` or ``tanh(x + (r * h) w)``."""
        following = self._match_update(h)
        for a, b in self._operands(following.new if following else None, "Add"):
            update = self._match_gate_times_state(a, h.read)
            for rest, other in self._operands(b, "Mul"):
                less, candidate = self._at(rest, "Sub"), self._at(other, "Tanh")
                if update is None or less is None or candidate is None or following is None:
                    continue
                gate = self._at(less.inputs[1], "Sigmoid")
                if self._number(less.inputs[0]) == 1 and gate and gate.inputs[0] is update:
                    return self._gru_of(h, following, update, candidate.inputs[0])
        return None

    def _gru_of(
        self, h: Carried, following: Masked, update: ir.Value, candidate: ir.Value | None
    ) -> RecurrentCell | None:
        whole = self._sum(candidate)
        for x in whole or ():  # the state is reset before it is multiplied
            reset = self._match_gate_times_state(x, h.read) if x is not None else None
            if reset is not None and whole is not None:
                swapped = {h.read if source is x else source: array for source, array in whole.items()}
                return self._cell("GRU", h, None, following, [update, reset], swapped)
        for over_x, product in self._operands(candidate, "Add"):
            for gate, over_h in self._operands(product, "Mul"):
                node, first, second = self._at(gate, "Sigmoid"), self._sum(over_x), self._sum(over_h)
                if node is not None and first is not None and second is not None:
                    return self._cell("GRU", h, None, following, [update, node.inputs[0]], first, second)
        return None

    def _simple(self, h: Carried) -> RecurrentCell | None:
        """Match a simple RNN: ``h' = tanh(x)`` or ``relu(x)``."""
        following = self._match_update(h)
        node = self._at(following.new, "Tanh", "Relu") if following is not None else None
        if node is None or following is None:
            return None
        return self._cell("RNN", h, None, following, [node.inputs[0]], activations=[node.op_type])

    def _match_update(self, state: Carried) -> Masked | None:
        """Match the update of a state, which stays where the mask hides the step."""
        choice = self.choice(state.next)
        return choice if choice.old is None or choice.old is state.read else None

    def _cell(
        self, op_type: str, h: Carried, c: Carried | None, following: Masked,
        gates: Sequence[ir.Value | None], last: _Sum | None = None, apart: _Sum | None = None,
        **attributes: Any,
    ) -> RecurrentCell | None:  # fmt: skip
        """Build the cell of these sums, in ONNX's order.

        `last` behind `gates`, its part over the state apart.
        """
        gate_sums = [self._sum(gate) for gate in gates]
        gate_sums += [] if last is None else [_add_sums([last, apart]) if apart is not None else last]
        sums = [addend for addend in gate_sums if addend is not None]
        inputs = {x for addend in sums for x in addend if x is not None and x is not h.read}
        if len(sums) < len(gate_sums) or len(inputs) != 1 or not inputs <= self._repeat.rows.keys():
            return None
        (x,) = inputs
        if apart is not None and (last is None or h.read in last or {*apart} - {h.read, None}):
            return None
        widths = {_width(addend) for addend in sums}
        read, states = (_stack_weights(sums, value, widths) for value in (x, h.read))
        if read is None or states is None or states.shape[-1] not in widths or len(widths) > 1:
            return None
        bias = [np.broadcast_to(addend.get(None, np.zeros(1)), _width(addend)) for addend in sums]
        second = [np.zeros_like(addend) for addend in bias]
        if apart is not None and last is not None:
            bias[-1] = np.broadcast_to(last.get(None, np.zeros(1)), bias[-1].shape)
            second[-1] = np.broadcast_to(apart.get(None, np.zeros(1)), bias[-1].shape)
            attributes["linear_before_reset"] = 1
        biases = np.concatenate([*bias, *second])[None]
        return RecurrentCell(
            op_type, x, h, c, following.new, following.mask, read.astype(np.float32),
            states.astype(np.float32), biases.astype(np.float32), attributes,
        )  # fmt: skip


def _add_sums(sums: Sequence[_Sum | None]) -> _Sum | None:
    total: _Sum = {}
    for addend in sums:
        if addend is None:
            return None
        for x, array in addend.items():
            total[x] = total[x] + array if x in total else array
    return total


def _width(whole: _Sum) -> int:
    return max(int(array.shape[-1]) for array in whole.values())


def _columns(whole: _Sum, start: int, end: int) -> _Sum:
    width = _width(whole)
    wide = {x: np.broadcast_to(array, (*array.shape[:-1], width)) for x, array in whole.items()}
    return {x: array[..., start:end] for x, array in wide.items()}


def _stack_weights(sums: Sequence[_Sum], x: ir.Value, widths: set[int]) -> Reals | None:
    """Stack the weights of one vector [1, gates * out, in]; a gate that does not read it has zeros."""
    there = [gate[x] for gate in sums if x in gate]
    if not there or len({len(array) for array in there}) > 1 or len(widths) > 1:
        return None
    size = (len(there[0]), *widths)
    parts = [gate[x] if x in gate else np.zeros(size) for gate in sums]
    return np.concatenate([part.T for part in parts])[None]


_SUMS: dict[str, Callable[[_Finder, ir.Node, ir.Value], _Sum | None]] = {
    "Add": _Finder._sum_of_add, "Gemm": _Finder._gemm, "MatMul": _Finder._product, "Slice": _Finder._slice,
    "Split": _Finder._sum_of_split,
}  # fmt: skip
