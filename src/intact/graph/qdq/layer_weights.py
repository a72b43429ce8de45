"""Moves markers of layer weights from where exporters leave them to where engines expect them.

Frameworks keep gates in other orders than ONNX, and exporters write the way between: Slice and Concat of each
weight; what an Einsum is opened into lays its weight out. Behind a quantized weight that way would run at
every inference, and hide the weight from builders of int8 kernels. States of zeros, which ONNX has by
default, come with arithmetic on sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph import ops
from intact.graph.core.build import Inserter, drop_unused, is_read
from intact.graph.core.constants import Constants, evaluate_node
from intact.graph.core.quantization_view import is_op
from intact.graph.core.scene import Scene
from intact.graph.ops.attributes import copy_attributes
from intact.graph.qdq.markers import Marker, is_marker, read_marker
from intact.spec import QuantSpec

_STORED = (1, 2, 3)
"""Weights of inputs, weights of states, biases."""

_STATES = (5, 6)


@dataclass(frozen=True)
class Reordered:
    """A marker of a constant whose elements lie in another order than in the module.

    Attributes:
        before: What it was read as: the module's tensor, its grid and its range.
        order: Shape of the constant now: of each element, its place in the module's tensor, flat.
    """

    before: Marker
    order: NDArray[np.int64]


def settle_weights(model: ir.Model) -> dict[ir.Node, Reordered]:
    """Store the weights and biases of layers as these read them, in place; leave zero states out.

    Before: ``w -> FakeQuantize -> Slice, Slice, ... -> Concat -> Unsqueeze -> LSTM``, scales of rows.
    After: ``w' -> FakeQuantize -> LSTM``, the scales in the order of the rows.

    Before: ``w -> FakeQuantize -> Transpose -> Reshape -> MatMul``, scales along two axes of w.
    After: ``w' -> FakeQuantize -> MatMul``, scales of columns.

    Guards: what comes is constant; between it and the layer elements are only moved, each to one place; one
    axis tells the new scales apart. A Transpose alone is the emitter's matter.
    Returns:
        The markers that are new.
    """
    return _Settler(model.graph).run()


class _Settler:
    def __init__(self, graph: ir.Graph) -> None:
        self._graph, self._scene = graph, Scene(graph)
        self._constants = self._scene.constants
        self._stored: dict[ir.Value, ir.Value] = {}
        self._new: dict[ir.Node, Reordered] = {}

    def run(self) -> dict[ir.Node, Reordered]:
        for node in [n for n in self._graph if n.domain == "" and n.op_type in ops.RECURRENT]:
            for index, value in enumerate(node.inputs):
                if value is not None and index in _STORED and value.producer() is not None:
                    self._store(node, index, value)
                elif value is not None and index in _STATES and self._is_zero(value):
                    node.replace_input_with(index, None)
                    self._drop(value)
        for node in [n for n in self._graph if is_op(n, "MatMul")]:
            for index, value in enumerate(node.inputs):
                if value is not None and _is_laid(value):
                    self._store(node, index, value, only_marked=True)
        return self._new

    def _is_zero(self, value: ir.Value | None) -> bool:
        """Return whether `value` is 0 everywhere, whatever its sizes."""
        while value is not None:
            node, constant = value.producer(), self._constants(value)
            if constant is not None:
                return not constant.any()
            if node is None:
                return False
            if is_op(node, "ConstantOfShape"):
                return not ops.ConstantOfShape.fill(node).any()
            if not _moves_one(node, self._constants):
                return False
            value = node.inputs[ops.data_inputs(node)[0]]
        return False

    def _store(self, node: ir.Node, index: int, value: ir.Value, *, only_marked: bool = False) -> None:
        """Store a constant with its moves applied as an input of `node`, marked anew where needed."""
        if value not in self._stored:
            insert = self._scene.inserter(node)
            constant = None if only_marked else self._constants(value)
            if constant is not None:
                self._stored[value] = insert.constant(value.name or "weight", constant)
            elif (marked := self._move_marker(value, insert)) is not None:
                self._stored[value] = marked
            else:
                return
        node.replace_input_with(index, self._stored[value])
        self._drop(value)

    def _move_marker(self, value: ir.Value, insert: Inserter) -> ir.Value | None:
        """Add a marker behind everything that moves what another one marks; None where a guard forbids it."""
        way = _way(value, self._constants)
        if way is None or way[0].outputs[0] is value:
            return None
        marker = read_marker(way[0], self._constants)
        x = self._constants(marker.node.inputs[0])
        if x is None or marker.spec.block_size is not None:
            return None
        order = self._order(value, way, x.shape)
        if not np.array_equal(np.sort(order, axis=None), np.arange(x.size)):
            return None
        return self._remark(marker, x, order, insert)

    def _order(self, value: ir.Value, way: list[ir.Node], shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Apply `way` to the indices of a tensor's elements."""
        places = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
        places_of: dict[ir.Value, NDArray] = {way[0].outputs[0]: places}
        for node in way[1:]:
            read = [places_of[v] if v in places_of else self._constants(v) for v in node.inputs]
            places_of.update(zip(node.outputs, evaluate_node(node, read), strict=False))
        order: NDArray[np.int64] = places_of[value]
        return order

    def _remark(
        self, marker: Marker, x: NDArray, order: NDArray[np.int64], insert: Inserter
    ) -> ir.Value | None:
        given_ends = [end for end in (marker.amax, marker.amin) if end is not None]
        ends = [_expand_range(end, x.shape, marker.spec)[order] for end in given_ends]
        axis = _axis(ends) if marker.spec.axis is not None else None
        if axis is None and marker.spec.axis is not None:
            return None
        old, base = marker.node, f"{marker.quantizer}.laid"
        range_ends = [_along(end, axis) for end in ends]
        inputs = [
            insert.constant(base, x.reshape(-1)[order]),
            *(
                insert.constant(f"{base}.{n}", e)
                for n, e in zip(("_amax", "_amin"), range_ends, strict=False)
            ),
        ]
        attributes = copy_attributes(old, "axis")
        if axis is not None:
            attributes["axis"] = ir.AttrInt64s("axis", [axis])
        marker_output = insert.node(
            old.op_type, inputs, f"{base}.marked", domain=old.domain, dtype=old.outputs[0].dtype,
            shape=ir.Shape(order.shape), **attributes,
        )  # fmt: skip
        node = marker_output.producer()
        assert node is not None
        node.metadata_props.update(old.metadata_props)
        self._new[node] = Reordered(marker, order)
        return marker_output

    def _drop(self, value: ir.Value) -> None:
        """Remove the nodes that make `value`, as far as nobody else reads them."""
        node = value.producer()
        if node is None or any(map(is_read, node.outputs)):
            return
        above = [v for v in node.inputs if v is not None]
        self._graph.remove(node, safe=True)
        drop_unused(self._graph, *above)
        for unused in above:
            self._drop(unused)


def _is_laid(value: ir.Value) -> bool:
    """Return whether `value` comes from a marker's output by several Transposes, or by another move."""
    node = value.producer()
    above = node.inputs[0].producer() if node is not None and node.inputs and node.inputs[0] else None
    return above is not None and not (is_op(node, "Transpose") and is_marker(above))


def _moves_one(node: ir.Node, constants: Constants) -> bool:
    """Return whether `node` only moves elements of one tensor."""
    return ops.may_move(node) and not ops.computes(node, constants) and len(ops.data_inputs(node)) == 1


def _way(value: ir.Value, constants: Constants) -> list[ir.Node] | None:
    """Return the one marker that `value` depends on, and the moves between, in the graph's order."""
    way: dict[ir.Node, None] = {}
    waiting = [value]
    while waiting:
        node = waiting.pop().producer()
        if node is None:
            return None
        if node in way:
            continue
        way[node] = None
        if is_marker(node):
            continue
        if not ops.may_move(node) or ops.computes(node, constants):
            return None
        for index, read in enumerate(node.inputs):
            if index in ops.data_inputs(node):
                if read is None:
                    return None
                waiting.append(read)
            elif read is not None and read not in constants:
                return None
    if sum(map(is_marker, way)) != 1:
        return None
    assert value.graph is not None
    return [node for node in value.graph if node in way] if len(way) > 1 else list(way)


def _expand_range(end: NDArray[np.float32], shape: tuple[int, ...], spec: QuantSpec) -> NDArray[np.float32]:
    """Expand a range to one number for each element, flat."""
    along = [1] * len(shape)
    for axis in spec.axes:
        along[axis] = shape[axis]
    return np.broadcast_to(end.reshape(along if spec.axes else ()), shape).reshape(-1)


def _axis(ends: list[NDArray[np.float32]]) -> int | None:
    """Return the only axis along which `ends` change; an axis of rows of all directions comes first."""
    axes = sorted(range(ends[0].ndim), key=lambda axis: axis != ops.LSTM().weight_axis)
    return next((a for a in axes if all(np.array_equal(end, _as_wide(end, a)) for end in ends)), None)


def _as_wide(end: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
    along = [1] * end.ndim
    along[axis] = -1
    return np.broadcast_to(_along(end, axis).reshape(along), end.shape)


def _along(end: NDArray[np.float32], axis: int | None) -> NDArray[np.float32]:
    """Return the first element for each index of `axis`; of all, where it is None."""
    first: NDArray[np.float32] = (
        end.reshape(-1)[0] if axis is None else np.moveaxis(end, axis, 0).reshape(end.shape[axis], -1)[:, 0]
    )
    return np.ascontiguousarray(first)
