"""Compare the pairs of a Q/DQ graph by their grids."""

from __future__ import annotations

from collections.abc import Iterator

from intact.graph import Node, QuantizedValue, Value, quantization_of
from intact.graph.ops import may_move
from intact.placement.placement_graph import Reader, View
from intact.processes import cached_property


class Pairs:
    """Quantization of each edge and tensor of a view, as far as its parameters are constants."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[Node, QuantizedValue | None] = {}

    def on(self, reader: Reader) -> QuantizedValue | None:
        """Return the pair on an edge; None where there is none, or its scale is computed."""
        mark = self._view.marks.get(reader)
        if mark is None or mark.dq is None:
            return None
        if mark.dq not in self._known:
            self._known[mark.dq] = quantization_of(mark.dq.outputs[0], self._view.constants)
        return self._known[mark.dq]

    def above(self, reader: Reader) -> QuantizedValue | None:
        """Return the pair whose codes an edge brings: on it, or further up where data is only moved."""
        while (mark := self.on(reader)) is None:
            producer = self._view.producer(reader[0].inputs[reader[1]])
            if producer is None or not may_move(producer.node):
                return None
            reader = producer, 0
        return mark

    def alone(self, reader: Reader) -> bool:
        """Return whether an edge is the only reader of its codes, up to the pair that they come from."""
        while (value := reader[0].inputs[reader[1]]) is not None and len(self._view.readers(value)) == 1:
            producer = self._view.producer(value)
            if self.on(reader) is not None or producer is None or not may_move(producer.node):
                return True
            reader = producer, 0
        return False

    def readers(self, value: Value) -> Iterator[tuple[Reader, QuantizedValue]]:
        """Yield the readers of a tensor that read it through a pair."""
        for reader in self._view.readers(value):
            if (mark := self.on(reader)) is not None:
                yield reader, mark

    @cached_property
    def tensors(self) -> tuple[Value, ...]:
        """Every tensor that some reader reads through a pair, in the graph's order."""
        seen = dict.fromkeys(self._view.model.graph.inputs)
        seen |= dict.fromkeys(value for op in self._view.ops for value in (*op.inputs, *op.outputs) if value)
        return tuple(value for value in seen if any(True for _ in self.readers(value)))


def same_scale(first: QuantizedValue, other: QuantizedValue) -> bool:
    """Return whether two pairs have the same grid, scale and zero point."""
    return scale_key(first) == scale_key(other)


def scale_key(view: QuantizedValue) -> tuple[object, ...]:
    """Return a key that is equal for two pairs whose codes mean the same."""
    return view.spec, view.scale.tobytes(), view.zero_point.tobytes()
