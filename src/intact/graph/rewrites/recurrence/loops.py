"""Rewrite Loop and Scan over a recurrent cell as LSTM, GRU or RNN."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.build import Namer, Writer, hand_over, is_read
from intact.graph.core.constants import Constants
from intact.graph.core.quantization_view import is_op
from intact.graph.rewrites.recurrence.cells import RecurrentCell, find_cell, match_mask
from intact.graph.rewrites.recurrence.loop_bodies import Carried, Repeat, constant_array, read_repeat
from intact.graph.rewrites.rewrite import Ensures, Outcome, Requires, Rewrite, Scene

_FLOAT, _INT64, _INT32 = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.INT32
_MASKED_RANK = 3  # [steps, batch, 1]


def _replace_loop(node: ir.Node, scene: Scene) -> Outcome:
    """Write a Loop or Scan that walks a recurrent cell over rows as that cell's operator.

    Before: ``Loop(i < n, h, c: x[i] -> MatMul, MatMul, Add, Split, Sigmoid, Tanh, ...)``.
    After: ``LSTM(x[:n], ...)``; its product with all inputs is one, and can run in int8.

    So tf2onnx leaves Keras' layers that a mask goes into. Steps that the mask hides leave the states as they
    are, wherever they stand: rows are sorted so that these come last, the lengths are those of the others,
    and what is made is put back into its place. ONNX leaves open what the last state of a row of no steps is,
    and ONNX Runtime makes it 0: where all of a row is hidden, and its first state may be another, that is
    chosen.

    Guards: the cell is an LSTM, a GRU or a simple one with constant weights; the body does nothing else.
    """
    constants = Constants(scene.graph)  # anew: a loop before this one may have become constants and products
    repeat = read_repeat(node, constants)
    cell = find_cell(repeat, constants) if repeat is not None else None
    if repeat is None or cell is None:
        return None
    opener = _Opener(repeat, cell, constants, scene.names)
    if not opener.fits():
        return None
    opener.write()
    return f"its body is a step of {cell.op_type}"


class _Opener:
    """One Loop or Scan and the nodes that take its place."""

    def __init__(self, repeat: Repeat, cell: RecurrentCell, constants: Constants, names: Namer) -> None:
        self._repeat, self._cell, self._constants, self._names = repeat, cell, constants, names
        self._write, self._base = Writer(repeat.node, names), repeat.node.name or cell.op_type
        self._h = cell.h.next

    # -- what is asked for

    def fits(self) -> bool:
        """Return whether the cell makes everything that is read of the node."""
        repeat, cell = self._repeat, self._cell
        carried = {cell.h.last, *([cell.c.last] if cell.c is not None else [])}
        uncarried = [state.last for state in repeat.states if state.last not in carried]
        if any(map(is_read, (*uncarried, *repeat.counted))):
            return False
        if any(is_read(tensor) and self._shows_state(value) is None for value, tensor in repeat.outputs):
            return False
        if cell.mask is None:
            return True
        shape = repeat.rows[cell.mask].shape
        return shape is not None and len(shape) == _MASKED_RANK and shape[-1] == 1

    def _shows_state(self, value: ir.Value) -> bool | None:
        """Return whether hidden steps show the unchanged state (True) or 0; None where `value` is neither."""
        repeat, cell = self._repeat, self._cell
        source = repeat.source(value)
        if source is repeat.source(self._h):
            return True if cell.mask is None or not repeat.backwards else None
        shown = match_mask(repeat, self._constants, value)
        if cell.mask is None or shown.mask is not cell.mask or shown.new is not cell.new_h:
            return True if cell.mask is None and source is cell.new_h else None
        old = shown.old
        state = next((s for s in repeat.states if s.read is old), None)
        if state is not None:  # what was shown last: the state, where both began as 0
            echo = match_mask(repeat, self._constants, state.next)
            same = echo.mask is cell.mask and echo.new is cell.new_h and echo.old is state.read
            begun = self._is_zero(state.first) and self._is_zero(cell.h.first)
            return True if same and begun and not repeat.backwards else None
        return False if self._is_zero(repeat.source(old)) else None

    def _is_zero(self, value: ir.Value | None) -> bool:
        """Return whether `value` is 0 everywhere, whatever its sizes."""
        array = constant_array(value, self._constants)
        if array is not None:
            return not array.any()
        node = value.producer() if value is not None else None
        if is_op(node, "ConstantOfShape") and node is not None:
            return not ops.ConstantOfShape.fill(node).any()
        return is_op(node, "Expand", "Identity") and node is not None and self._is_zero(node.inputs[0])

    # -- what is written

    def write(self) -> None:
        repeat, cell = self._repeat, self._cell
        x, lengths, places = self._rows(repeat.rows[cell.x]), None, None
        if cell.mask is not None:
            mask = self._write("Squeeze", self._rows(repeat.rows[cell.mask]), self._write.sizes(2),
                              dtype=ir.DataType.BOOL)  # fmt: skip
            counted = self._write("Cast", mask, dtype=_INT64, to=int(_INT64))
            total = self._write("ReduceSum", counted, self._write.sizes(0), dtype=_INT64, keepdims=0)
            each = self._write("Expand", total, self._sizes(x, 1, 2), dtype=_INT64)
            lengths = self._write("Cast", each, dtype=_INT32, to=int(_INT32))
            x = self._sort_rows(x, mask)
            places = counted
        y, last_h, last_c = self._operator(x, lengths)
        nothing = self._write.sizes(1)
        every = self._write("Squeeze", y, nothing)
        graph_node = repeat.node
        for value, tensor in repeat.outputs:
            if is_read(tensor):
                shows_state = self._shows_state(value)
                shown = (
                    every
                    if places is None
                    else self._restore_order(every, places, shows_state=bool(shows_state))
                )
                hand_over(graph_node, tensor, shown, self._names)
        for state, last in ((cell.h, last_h), (cell.c, last_c)):
            if state is not None and last is not None and is_read(state.last):
                hand_over(graph_node, state.last, self._last(state, last, lengths), self._names)
        for output, inner_value in repeat.handed_on:
            if is_read(output):
                hand_over(graph_node, output, inner_value, self._names)
        assert isinstance(graph_node.graph, ir.Graph)
        graph_node.graph.remove(graph_node, safe=True)

    def _operator(self, x: ir.Value, lengths: ir.Value | None) -> tuple[ir.Value, ir.Value, ir.Value | None]:
        cell = self._cell
        parameters = [self._write.constant(array) for array in (cell.weights, cell.states, cell.bias)]
        first = [self._first(state, x) for state in (cell.h, cell.c) if state is not None]
        count = 3 if cell.c is not None else 2
        y = self._write(
            cell.op_type, x, *parameters, lengths, *first, hidden_size=cell.states.shape[-1],
            direction="reverse" if self._repeat.backwards else "forward", **cell.attributes,
        )  # fmt: skip
        node = y.producer()
        assert node is not None
        node.resize_outputs(count)
        for output in node.outputs[1:]:
            output.name, output.type = self._names(f"{self._base}.last"), ir.TensorType(_FLOAT)
        return y, node.outputs[1], node.outputs[2] if count > 2 else None

    def _first(self, state: Carried, x: ir.Value) -> ir.Value:
        """Return the first state [1, batch, hidden]: one row may stand for the whole batch."""
        hidden = self._cell.states.shape[-1]
        sizes = self._write("Concat", self._sizes(x, 1, 2), self._write.sizes(hidden), dtype=_INT64, axis=0)
        return self._write("Unsqueeze", self._write("Expand", state.first, sizes), self._write.sizes(0))

    def _last(self, state: Carried, last: ir.Value, lengths: ir.Value | None) -> ir.Value:
        """Return the last state [batch, hidden].

        A row without a step keeps the first, where ONNX says nothing.
        """
        if lengths is None or self._is_zero(state.first):
            return self._write("Squeeze", last, self._write.sizes(0))
        none = self._write.constant(0, np.int32)
        empty = self._write("Equal", lengths, none, dtype=ir.DataType.BOOL)
        rows = self._write("Unsqueeze", empty, self._write.sizes(1), dtype=ir.DataType.BOOL)
        return self._write("Where", rows, state.first, self._write("Squeeze", last, self._write.sizes(0)))

    def _sizes(self, x: ir.Value, start: int, end: int) -> ir.Value:
        """Slice the shape of a tensor."""
        shape = self._write("Shape", x, dtype=_INT64)
        return self._write("Slice", shape, self._write.sizes(start), self._write.sizes(end), dtype=_INT64)

    def _rows(self, tensor: ir.Value) -> ir.Value:
        """Slice as many rows of a tensor as there are steps."""
        for limit in self._repeat.limits:
            if not _counts(limit, tensor, self._constants):
                count = self._write("Cast", limit, dtype=_INT64, to=int(_INT64))
                end = self._write("Reshape", count, self._write.sizes(1), dtype=_INT64)
                tensor = self._write(
                    "Slice", tensor, self._write.sizes(0), end, self._write.sizes(0), dtype=tensor.dtype
                )
        return tensor

    def _sort_rows(self, x: ir.Value, mask: ir.Value) -> ir.Value:
        """Sort rows that the mask shows first, in their order: equal elements of a TopK keep theirs."""
        real = self._write("Cast", mask, to=int(_FLOAT))
        top = self._write("TopK", real, self._sizes(mask, 0, 1), axis=0).producer()
        assert top is not None
        top.resize_outputs(2)
        order = top.outputs[1]
        order.name, order.type = self._names(f"{self._base}.order"), ir.TensorType(_INT64)
        return self._gather_rows(x, order)

    def _restore_order(self, y: ir.Value, shown: ir.Value, *, shows_state: bool) -> ir.Value:
        """Restore rows to their places; hidden ones as the row before, or 0: a row behind the end of all."""
        axis = self._write.constant(0, np.int64)
        counted = self._write("CumSum", shown, axis, dtype=_INT64)
        if shows_state:
            first = self._first(self._cell.h, y)
            return self._gather_rows(self._write("Concat", first, y, axis=0), counted)
        placed = self._write("Mul", counted, shown, dtype=_INT64)
        return self._gather_rows(y, self._write("Sub", placed, self._write.sizes(1), dtype=_INT64))

    def _gather_rows(self, x: ir.Value, order: ir.Value) -> ir.Value:
        """Gather x [rows, batch, n] in the order [steps, batch] of its rows, for each of the batch its
        own."""
        places = self._write("Unsqueeze", order, self._write.sizes(2), dtype=_INT64)
        sizes = self._write("Concat", self._sizes(order, 0, 1), self._sizes(x, 1, 3), dtype=_INT64, axis=0)
        wide = self._write("Expand", places, sizes, dtype=_INT64)
        return self._write("GatherElements", x, wide, axis=0)


def _counts(limit: ir.Value, tensor: ir.Value, constants: Constants) -> bool:
    """Return whether `limit` is the number of rows of `tensor`, as read of its shape."""
    value: ir.Value | None = limit
    while value is not None:
        node = value.producer()
        if node is None or not is_op(node, "Cast", "Gather", "Identity", "Shape", "Slice", "Squeeze"):
            return False
        if node.op_type == "Shape":
            return node.inputs[0] is tensor and ops.Shape.of(node) == ops.Shape()
        if node.op_type in ("Gather", "Slice"):
            place = constant_array(node.inputs[1], constants)
            if place is None or place.size != 1 or place.item() != 0:
                return False
        value = node.inputs[0]
    return False


LOOPS = Rewrite(
    "write loops over cells as layers",
    _replace_loop,
    ("Loop", "Scan"),
    requires=Requires(opset=13),
    ensures=Ensures(shapes=True, read=True),
)
