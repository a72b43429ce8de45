"""Apply Unsqueeze, Reshape, Concat or Slice to the codes of constant weights at load time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph import ops
from intact.graph.core.build import drop_unused, hand_over
from intact.graph.core.constants import evaluate_node, foldable
from intact.graph.core.quantization_view import is_op, quantization_of
from intact.graph.core.scene import Note, Scene

_MOVES = (
    "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity",
    "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
)  # fmt: skip
"""Operators that move elements of their data and add none."""
_AXIS_OPSET = 13


def move_stored_weights(model: ir.Model) -> list[Note]:
    """Move the codes of constant weights rather than their floats, in place; the floats stay the same.

    Before: ``Unsqueeze(DQ(w))``, as tf2onnx writes Conv1D; ``Concat(DQ(k), DQ(v))``.
    After: ``DQ(w')`` of the moved codes, whose scales lie along the axis that they came to.

    Guards: nothing else than moving; codes of one type; behind it one scale, or one for each index of an
    axis, which opset 13 brought.

    Returns:
        One note for each weight.
    """
    if not any(is_op(node, "DequantizeLinear") for node in model.graph):
        return []
    mover = _Mover(model.graph)
    notes = [note for node in list(model.graph) for note in mover.visit(node)]
    mover.clear()
    return notes


@dataclass(frozen=True)
class _Moved:
    """Codes of a constant, and for each the number of its scale and zero point.

    Attributes:
        codes: In their own dtype.
        granules: int32, the shape of `codes`: indices of `scales`.
        scales, zeros: One for each granule.
        dtype: ONNX's type of the codes.
    """

    codes: NDArray[Any]
    granules: NDArray[np.int32]
    scales: NDArray[np.float32]
    zeros: NDArray[np.int32]
    dtype: ir.DataType

    def axis(self) -> tuple[int | None, NDArray[np.int32]] | None:
        """Return the axis along which granules differ (None: they do not), and the granule of each index."""
        first = self.granules.reshape(-1)[:1]
        if (self.granules == first).all():
            return None, first.reshape(())
        for axis in range(self.granules.ndim):
            rows = np.moveaxis(self.granules, axis, 0).reshape(self.granules.shape[axis], -1)
            if (rows == rows[:, :1]).all():
                return axis, rows[:, 0]
        return None


class _Mover:
    def __init__(self, graph: ir.Graph) -> None:
        self._graph, self._scene = graph, Scene(graph)
        self._constants = self._scene.constants
        self._moved: dict[ir.Value, _Moved] = {}
        self._nodes: list[ir.Node] = []

    def visit(self, node: ir.Node) -> list[Note]:
        """Record a node's move of stored codes; rewrite the readers of moved codes."""
        if is_op(node, *_MOVES) and node.outputs[0] in self._constants and self._moves(node):
            return [note for value in node.outputs if (note := self._store(node, value)) is not None]
        return []

    def clear(self) -> None:
        """Drop nodes and constants without readers."""
        for node in reversed(self._nodes):
            if not any(value.uses() or value.is_graph_output() for value in node.outputs):
                inputs = list(node.inputs)
                self._graph.remove(node, safe=True)
                drop_unused(self._graph, *inputs)

    def _moves(self, node: ir.Node) -> bool:
        """Return whether `node` moves stored codes; remembers its output."""
        if not foldable(node):
            return False
        places = [index for index in ops.data_inputs(node) if index < len(node.inputs)]
        sources = [self._source(node.inputs[index]) for index in places]
        moved_sources = [source for source in sources if source is not None]
        if len(moved_sources) < len(sources) or len({source.dtype for source in moved_sources}) != 1:
            return False
        starts = np.cumsum([0, *(len(source.scales) for source in moved_sources)])
        granules = [
            source.granules + np.int32(start) for source, start in zip(moved_sources, starts, strict=False)
        ]
        # Codes of 4 bits are no type of all operators of ONNX's reference; numbers of 32 bits are.
        codes = self._evaluate(node, places, [source.codes.astype(np.int32) for source in moved_sources])
        table = (
            np.concatenate([source.scales for source in moved_sources]),
            np.concatenate([source.zeros for source in moved_sources]),
        )
        for value, moved, number in zip(
            node.outputs, codes, self._evaluate(node, places, granules), strict=False
        ):
            self._moved[value] = _Moved(
                moved.astype(moved_sources[0].codes.dtype), number, *table, moved_sources[0].dtype
            )
        self._nodes.append(node)
        return True

    def _evaluate(self, node: ir.Node, places: list[int], data: list[NDArray[Any]]) -> list[NDArray[Any]]:
        inputs = [self._constants(v) if i not in places else None for i, v in enumerate(node.inputs)]
        for place, array in zip(places, data, strict=True):
            inputs[place] = array
        return evaluate_node(node, inputs)

    def _source(self, value: ir.Value | None) -> _Moved | None:
        """Return the stored codes behind `value`."""
        if value is None or value in self._moved:
            return self._moved.get(value) if value is not None else None
        view = quantization_of(value, self._constants)
        if view is None or not view.constant or view.spec.block_size is not None or view.spec.format.is_float:
            return None
        codes, axis = self._constants(view.codes), view.spec.axis
        assert codes is not None and view.codes.dtype is not None and not isinstance(axis, tuple)
        scales, zeros = view.scale.reshape(-1), view.zero_point.reshape(-1)
        is_misplaced = axis is not None and not -codes.ndim <= axis < codes.ndim
        if codes.size == 0 or is_misplaced or (axis is not None and codes.shape[axis] != len(scales)):
            return None
        shape = [1] * codes.ndim
        if axis is not None:
            shape[axis] = len(scales)
        granules = np.broadcast_to(np.arange(len(scales), dtype=np.int32).reshape(shape), codes.shape)
        self._moved[value] = moved = _Moved(codes, granules, scales, zeros, view.codes.dtype)
        producer = value.producer()
        assert producer is not None
        self._nodes.append(producer)
        return moved

    def _store(self, node: ir.Node, value: ir.Value) -> Note | None:
        """Connect the readers of `value` that compute to a DequantizeLinear of its moved codes."""
        readers = [use.node for use in value.uses()]
        if value.is_graph_output() or all(is_op(reader, *_MOVES) for reader in readers):
            return None
        moved = self._moved[value]
        granules = moved.axis() if moved.codes.size else None
        if granules is None:
            return None
        axis, numbers = granules
        if axis is not None and self._graph.opset_imports.get("", _AXIS_OPSET) < _AXIS_OPSET:
            return None
        insert, name = self._scene.inserter(node), value.name or node.name or "weight"
        codes = insert.constant(f"{name}.codes", moved.codes, moved.dtype)
        scale = insert.constant(f"{name}.scale", moved.scales[numbers])
        zeros = moved.zeros[numbers].astype(moved.dtype.numpy())
        zero = insert.constant(f"{name}.zero_point", zeros, moved.dtype)
        attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
        y = insert.node(
            "DequantizeLinear", [codes, scale, zero], f"{name}.real", dtype=value.dtype,
            shape=ir.Shape(moved.codes.shape), **attributes,
        )  # fmt: skip
        hand_over(node, value, y, self._scene.names)
        return Note(name, f"{node.op_type} moved its codes")
